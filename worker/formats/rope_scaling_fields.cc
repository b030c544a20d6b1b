// The rules are those of transformers' modeling_rope_utils.py, 5.x; docs/models.md says where versions of it
// differ.
#include "worker/formats/rope_scaling_fields.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace ropelab::formats {
namespace {

constexpr int64_t kMaxPositions = int64_t{1} << 30;
constexpr double kMaxFactor = 1e6;
constexpr int64_t kLongestStretched = int64_t{1} << 20;

// The place that a kind is read from.
struct Source {
  ConfigFields& fields;
  ConfigFields& from;
  const ModelConfig& config;
};

double Factor(Source source, std::optional<double> missing = std::nullopt) {
  return source.from.Number("factor", 0.0, kMaxFactor, missing);
}

// Beside the scaling or within it; two that differ are refused, since versions disagree which one counts.
int64_t OriginalPositions(Source source, int64_t least, std::optional<int64_t> missing) {
  const char* name = "original_max_position_embeddings";
  const bool outside = source.fields.Has(name);
  if (outside) missing = source.fields.Integer(name, least, kMaxPositions, missing);
  const int64_t positions = source.from.Integer(name, least, kMaxPositions, missing);
  if (outside && positions != *missing) {
    source.from.Refuse(name, absl::StrCat(positions),
                       absl::StrCat("the config's own says ", *missing, "; keep one of the two"));
  }
  return positions;
}

double Stretch(Source source, int64_t original) {
  return static_cast<double>(source.config.max_positions) / static_cast<double>(original);
}

void ReadNone(Source, RopeScaling&) {}

void ReadLinear(Source source, RopeScaling& scaling) {
  scaling.factor = Factor(source);
}

void ReadLlama3(Source source, RopeScaling& scaling) {
  scaling.factor = Factor(source);
  scaling.low_freq_factor = source.from.Number("low_freq_factor", 0.0, kMaxFactor, std::nullopt);
  scaling.high_freq_factor = source.from.Number("high_freq_factor", 0.0, kMaxFactor, std::nullopt);
  scaling.original_max_positions = OriginalPositions(source, 1, std::nullopt);
  if (scaling.high_freq_factor <= scaling.low_freq_factor) {
    source.from.Refuse("high_freq_factor", absl::StrCat(scaling.high_freq_factor),
                       absl::StrCat("it must be above low_freq_factor, ", scaling.low_freq_factor));
  }
}

// Hugging Face stretches by the prompt's length over max_position_embeddings, whatever
// original_max_position_embeddings says.
void ReadDynamic(Source source, RopeScaling& scaling) {
  scaling.factor = Factor(source);
  scaling.original_max_positions = source.config.max_positions;
  if (source.config.head_dim <= 2) {
    source.fields.Refuse("head_dim", absl::StrCat(source.config.head_dim),
                         "dynamic scaling divides by head_dim - 2: it must be above 2");
  }
}

double YarnMagnitude(double factor, double scale) {
  return factor <= 1.0 ? 1.0 : 0.1 * scale * std::log(factor) + 1.0;
}

// A zero counts as missing.
double NumberOr(Source source, const char* name, double missing) {
  const double number = source.from.Number(name, -kMaxFactor, kMaxFactor, 0.0);
  return number == 0.0 ? missing : number;
}

void ReadYarn(Source source, RopeScaling& scaling) {
  scaling.original_max_positions = OriginalPositions(source, 1, source.config.max_positions);
  scaling.factor = Factor(source, Stretch(source, scaling.original_max_positions));
  scaling.beta_fast = NumberOr(source, "beta_fast", 32.0);
  scaling.beta_slow = NumberOr(source, "beta_slow", 1.0);
  if (!(scaling.beta_slow > 0.0 && scaling.beta_fast >= scaling.beta_slow)) {
    source.from.Refuse(
        "beta_fast", absl::StrCat(scaling.beta_fast),
        absl::StrCat("it must be at least beta_slow, ", scaling.beta_slow, ", and both above 0"));
  }
  // Hugging Face takes a null here for false.
  scaling.truncate = source.from.Boolean("truncate", !source.from.Given("truncate"));
  const double scale = NumberOr(source, "mscale", 0.0);
  const double scale_all = NumberOr(source, "mscale_all_dim", 0.0);
  double magnitude = YarnMagnitude(scaling.factor, 1.0);
  if (scale != 0.0 && scale_all != 0.0) {
    magnitude = YarnMagnitude(scaling.factor, scale) / YarnMagnitude(scaling.factor, scale_all);
  }
  scaling.attention_factor = source.from.Number("attention_factor", 0.0, kMaxFactor, magnitude);
}

void ReadLongRope(Source source, RopeScaling& scaling) {
  const auto pairs = static_cast<size_t>(source.config.head_dim / 2);
  scaling.short_factor = source.from.Numbers("short_factor", pairs, 0.0, kMaxFactor);
  scaling.long_factor = source.from.Numbers("long_factor", pairs, 0.0, kMaxFactor);
  scaling.original_max_positions = OriginalPositions(source, 2, source.config.max_positions);
  const double factor = Factor(source, Stretch(source, scaling.original_max_positions));
  const double magnitude =
      factor <= 1.0
          ? 1.0
          : std::sqrt(1.0 + std::log(factor) / std::log(static_cast<double>(scaling.original_max_positions)));
  scaling.attention_factor = source.from.Number("attention_factor", 0.0, kMaxFactor, magnitude);
}

// Longest prompts. max_position_embeddings, `positions`, is often the length before the stretch.
int64_t Unstretched(const RopeScaling&, int64_t positions) {
  return positions;
}

int64_t StretchedBy(double factor, int64_t positions) {
  const double length = std::floor(static_cast<double>(positions) * std::max(factor, 1.0));
  return static_cast<int64_t>(std::min(length, static_cast<double>(kLongestStretched)));
}

int64_t LinearLength(const RopeScaling& scaling, int64_t positions) {
  return std::max(positions, StretchedBy(scaling.factor, positions));
}

int64_t YarnLength(const RopeScaling& scaling, int64_t positions) {
  return std::max(positions, StretchedBy(scaling.factor, scaling.original_max_positions));
}

// It stretches as far as a prompt needs.
int64_t DynamicLength(const RopeScaling&, int64_t positions) {
  return std::max(positions, kLongestStretched);
}

struct Kind {
  std::string_view type;  // in config.json
  const char* name;       // in the canonical text
  RopeScalingKind kind;
  void (*read)(Source source, RopeScaling& scaling);
  int64_t (*longest)(const RopeScaling& scaling, int64_t positions);
};

constexpr Kind kKinds[] = {
    {"default", "none", RopeScalingKind::kNone, &ReadNone, &Unstretched},
    {"linear", "linear", RopeScalingKind::kLinear, &ReadLinear, &LinearLength},
    {"llama3", "llama3", RopeScalingKind::kLlama3, &ReadLlama3, &Unstretched},
    {"yarn", "yarn", RopeScalingKind::kYarn, &ReadYarn, &YarnLength},
    {"dynamic", "dynamic", RopeScalingKind::kDynamic, &ReadDynamic, &DynamicLength},
    {"longrope", "longrope", RopeScalingKind::kLongRope, &ReadLongRope, &Unstretched},
};

}  // namespace

RopeScaling ReadRopeScaling(ConfigFields& fields, ConfigFields& from, const std::string& type,
                            const ModelConfig& config) {
  RopeScaling scaling;
  for (const Kind& kind : kKinds) {
    if (kind.type != type) continue;
    scaling.kind = kind.kind;
    kind.read({fields, from, config}, scaling);
    return scaling;
  }
  const auto append = [](std::string* out, const Kind& kind) { out->append(kind.type); };
  from.Refuse(
      "rope_type", absl::StrCat("\"", type, "\""),
      absl::StrCat("this scaling of RoPE is not known; known are ", absl::StrJoin(kKinds, ", ", append)));
  return scaling;
}

int64_t LongestPrompt(const RopeScaling& scaling, int64_t positions) {
  for (const Kind& row : kKinds) {
    if (row.kind == scaling.kind) return row.longest(scaling, positions);
  }
  return positions;
}

const char* RopeScalingName(RopeScalingKind kind) {
  for (const Kind& row : kKinds) {
    if (row.kind == kind) return row.name;
  }
  return "";
}

}  // namespace ropelab::formats
