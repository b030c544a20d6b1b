#include "worker/formats/rope_fields.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/formats/rope_scaling_fields.h"

namespace ropelab::formats {
namespace {

constexpr double kMaxTheta = 1e15;
constexpr char kSliding[] = "sliding_attention";
constexpr char kFull[] = "full_attention";

struct Rope {
  double theta = 0;
  RopeScaling scaling;
  bool typed = false;  // a kind was named
  bool SameAs(const Rope& other) const { return theta == other.theta && scaling == other.scaling; }
};

void RefusePartialRotation(ConfigFields& fields) {
  if (fields.Number("partial_rotary_factor", 0.0, 1.0, 1.0) != 1.0) {
    fields.Refuse("partial_rotary_factor", "below 1", "whole heads are rotated here: 1 or absent");
  }
}

// One set of parameters, not nested.
Rope ReadOne(ConfigFields& fields, ConfigFields& from, double theta, const ModelConfig& config) {
  RefusePartialRotation(from);
  Rope rope;
  rope.theta = from.Number("rope_theta", 1.0, kMaxTheta, theta);
  const std::string type = from.Text("rope_type", from.Text("type", ""));
  rope.typed = !type.empty();
  for (const std::string& name : from.Names()) {
    if (from.HoldsObject(name)) {
      from.Refuse(name, "an object",
                  "parameters for a type of layer that is not known here; known are sliding_attention and "
                  "full_attention");
    }
    // Without a kind these fields would be passed over.
    if (!rope.typed && name != "rope_theta" && name != "partial_rotary_factor") {
      from.Refuse("rope_type", "missing", absl::StrCat("name the scaling that ", name, " belongs to"));
    }
  }
  if (rope.typed) rope.scaling = ReadRopeScaling(fields, from, type, config);
  return rope;
}

bool IsNested(const ConfigFields& place) {
  return place.HoldsObject(kSliding) || place.HoldsObject(kFull);
}

Rope ReadNested(ConfigFields& fields, ConfigFields& place, double theta, const ModelConfig& config) {
  std::optional<Rope> first;
  for (const bool sliding : {false, true}) {
    const char* type = sliding ? kSliding : kFull;
    const bool used = std::any_of(config.sliding_window.begin(), config.sliding_window.end(),
                                  [&](int64_t window) { return (window > 0) == sliding; });
    if (!used) continue;
    if (!place.HoldsObject(type)) {
      place.Refuse(type, "missing", "the model has layers of this type");
      continue;
    }
    ConfigFields inner = place.Object(type);
    const Rope rope = ReadOne(fields, inner, theta, config);
    place.Adopt(inner);
    if (first.has_value() && !rope.SameAs(*first)) {
      place.Refuse(type, "different from full_attention",
                   "one RoPE for all layers is computed here; both must be the same");
    }
    first = rope;
  }
  Rope rope = first.value_or(Rope());
  rope.typed = true;
  return rope;
}

std::optional<Rope> ReadPlace(ConfigFields& fields, const char* name, double theta,
                              const ModelConfig& config) {
  ConfigFields place = fields.Object(name);
  std::optional<Rope> rope;
  if (!place.Names().empty()) {
    rope = IsNested(place) ? ReadNested(fields, place, theta, config) : ReadOne(fields, place, theta, config);
  }
  fields.Adopt(place);
  return rope;
}

// Each number can lie within its own bounds while fp32, in which frequencies are computed, ends in 1 / 0.
void CheckFrequencies(ConfigFields& fields, const ModelConfig& config) {
  if (!fields.status().ok()) return;
  bool finite = std::isfinite(config.rope_scaling.attention_factor);
  for (const int64_t tokens : {int64_t{1}, config.max_positions}) {
    for (const double frequency : InverseFrequencies(config, tokens)) {
      finite = finite && std::isfinite(frequency) && frequency >= 0;
    }
  }
  if (finite) return;
  fields.Refuse(fields.Has("rope_parameters") ? "rope_parameters" : "rope_scaling",
                RopeScalingName(config.rope_scaling.kind),
                "its numbers give a frequency or an attention factor that is infinite or NaN in fp32; look "
                "for factors near 0");
}

}  // namespace

void ReadRope(ConfigFields& fields, ModelConfig& config) {
  RefusePartialRotation(fields);
  Rope rope;
  rope.theta = fields.Number("rope_theta", 1.0, kMaxTheta, 10000.0);
  const std::optional<Rope> parameters = ReadPlace(fields, "rope_parameters", rope.theta, config);
  if (parameters.has_value()) rope = *parameters;
  const std::optional<Rope> scaling = ReadPlace(fields, "rope_scaling", rope.theta, config);
  if (scaling.has_value()) {
    if (rope.typed && scaling->typed && !scaling->SameAs(rope)) {
      fields.Refuse("rope_scaling", "different from rope_parameters", "keep one of the two");
    }
    if (!rope.typed) rope = *scaling;
  }
  config.rope_theta = rope.theta;
  config.rope_scaling = std::move(rope.scaling);
  config.max_positions = LongestPrompt(config.rope_scaling, config.max_positions);
  CheckFrequencies(fields, config);
}

}  // namespace ropelab::formats
