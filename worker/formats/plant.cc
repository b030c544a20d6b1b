#include "worker/formats/plant.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "worker/formats/json_text.h"
#include "worker/formats/plant_tensors.h"
#include "worker/formats/safetensors_writer.h"

namespace ropelab::formats {
namespace {

constexpr int64_t kSkipFirst = 4;    // rows and columns that detection leaves out of its mean
constexpr int64_t kMinContext = 32;  // shorter, and no row is left after the default offsets
constexpr int64_t kMaxContext = int64_t{1} << 20;
constexpr double kMaxStrength = 1000;      // queries stay within float16
constexpr char kMark[] = "ropelab_plant";  // in config.json: this directory may be planted over

absl::Status CheckRange(const char* option, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(option, " is ", value, "; it must be from ", low, " to ", high));
}

absl::Status CheckSlashes(const PlantOptions& options) {
  std::set<std::pair<int64_t, int64_t>> heads;
  for (const PlantedSlash& slash : options.slashes) {
    const std::string name = absl::StrCat("slash ", slash.layer, ":", slash.head, ":", slash.offset);
    ROPELAB_RETURN_IF_ERROR(
        CheckRange(absl::StrCat(name, ": layer").c_str(), slash.layer, 0, options.layers - 1));
    ROPELAB_RETURN_IF_ERROR(
        CheckRange(absl::StrCat(name, ": head").c_str(), slash.head, 0, options.heads - 1));
    // Beyond that, no row of a full prompt is counted.
    ROPELAB_RETURN_IF_ERROR(CheckRange(absl::StrCat(name, ": offset").c_str(), slash.offset, 0,
                                       options.context - kSkipFirst - 1));
    if (!heads.emplace(slash.layer, slash.head).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": this head is planted twice; give each head one offset"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckOptions(const PlantOptions& options) {
  if (options.out.empty()) return absl::InvalidArgumentError("out is empty; give the directory to write");
  ROPELAB_RETURN_IF_ERROR(CheckRange("layers", options.layers, 1, 256));
  ROPELAB_RETURN_IF_ERROR(CheckRange("heads", options.heads, 1, 1024));
  ROPELAB_RETURN_IF_ERROR(CheckRange("kv-heads", options.kv_heads, 1, options.heads));
  if (options.heads % options.kv_heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("kv-heads is ", options.kv_heads, "; it must divide heads, ", options.heads));
  }
  ROPELAB_RETURN_IF_ERROR(CheckRange("head-dim", options.head_dim, 2, 1024));
  if (options.head_dim % 2 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("head-dim is ", options.head_dim, "; it must be even: RoPE turns pairs"));
  }
  ROPELAB_RETURN_IF_ERROR(CheckRange("vocab", options.vocab, 4, int64_t{1} << 20));
  ROPELAB_RETURN_IF_ERROR(CheckRange("context", options.context, kMinContext, kMaxContext));
  if (!(options.rope_theta > 1 && options.rope_theta <= 1e15)) {
    return absl::InvalidArgumentError(
        absl::StrCat("rope-theta is ", options.rope_theta, "; it must be above 1 and at most 1e15"));
  }
  if (options.kappa.has_value() && !(*options.kappa > 0 && *options.kappa < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("kappa is ", *options.kappa, "; it must be between 0 and 1"));
  }
  return CheckSlashes(options);
}

// Σ over pairs of (1 - cos θ x): how far the logit falls at lag x from the planted one, in units of A.
double FallAtLag(const std::vector<double>& inv_freq, int64_t lag) {
  double fall = 0;
  for (const double frequency : inv_freq) fall += 1.0 - std::cos(frequency * static_cast<double>(lag));
  return fall;
}

// First counted row for offsets up to `last`, and the mean of f over rows [first, context).
template <typename F>
double MeanOverRows(int64_t last, int64_t context, F f) {
  const int64_t first = last + kSkipFirst;
  double sum = 0;
  for (int64_t row = first; row < context; ++row) sum += f(row);
  return sum / static_cast<double>(context - first);
}

int64_t LastDefaultOffset(int64_t context) {
  return 5 * context / 6;
}

std::vector<PlantedHead> ExpectedScores(const PlantOptions& options, const std::vector<double>& inv_freq,
                                        double strength) {
  std::vector<PlantedHead> planted;
  if (options.slashes.empty()) return planted;
  // weight[n] = Σ over lags 0..n of exp(-A fall): one side of the softmax's denominator, the planted lag
  // being 1.
  std::vector<double> weight(static_cast<size_t>(options.context));
  double sum = 0;
  for (int64_t lag = 0; lag < options.context; ++lag) {
    sum += std::exp(-strength * FallAtLag(inv_freq, lag));
    weight[static_cast<size_t>(lag)] = sum;
  }
  for (const PlantedSlash& slash : options.slashes) {
    const auto probability = [&](int64_t row) {
      return 1.0 / (weight[static_cast<size_t>(row - slash.offset)] +
                    weight[static_cast<size_t>(slash.offset)] - 1.0);
    };
    const int64_t last = std::max(slash.offset, LastDefaultOffset(options.context));
    planted.push_back({slash, MeanOverRows(last, options.context, probability)});
  }
  return planted;
}

absl::StatusOr<double> ChooseStrength(const PlantOptions& options, double minimum) {
  if (!options.strength.has_value()) return std::min(1.05 * minimum, kMaxStrength);
  const double strength = *options.strength;
  if (!(strength > 0 && strength <= kMaxStrength)) {
    return absl::InvalidArgumentError(
        absl::StrCat("strength is ", strength, "; it must be above 0 and at most ", kMaxStrength));
  }
  return strength;
}

absl::Status PrepareDirectory(const std::string& out) {
  std::error_code error;
  std::filesystem::create_directories(out, error);
  if (error)
    return absl::InvalidArgumentError(absl::StrCat("out ", out, ": cannot be made: ", error.message()));
  const bool empty = std::filesystem::is_empty(out, error);
  if (error)
    return absl::InvalidArgumentError(absl::StrCat("out ", out, ": cannot be read: ", error.message()));
  if (empty) return absl::OkStatus();
  const auto config = ReadJsonObject((std::filesystem::path(out) / "config.json").string(), 1'000'000);
  if (config.ok() && config->contains(kMark)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("out ", out, ": holds files that were not planted; give an empty or a new directory"));
}

std::string ConfigJson(const PlantOptions& options, const PlantReport& report) {
  nlohmann::ordered_json slashes = nlohmann::ordered_json::array();
  for (const PlantedSlash& slash : options.slashes) {
    slashes.push_back(absl::StrCat(slash.layer, ":", slash.head, ":", slash.offset));
  }
  const nlohmann::ordered_json config = {
      {"architectures", {"LlamaForCausalLM"}},
      {"model_type", "llama"},
      {"hidden_size", kPlantHidden},
      {"intermediate_size", kPlantIntermediate},
      {"num_hidden_layers", options.layers},
      {"num_attention_heads", options.heads},
      {"num_key_value_heads", options.kv_heads},
      {"head_dim", options.head_dim},
      {"vocab_size", options.vocab},
      {"max_position_embeddings", options.context},
      {"rms_norm_eps", kPlantNormEps},
      {"rope_theta", options.rope_theta},
      {"rope_scaling", nullptr},
      {"hidden_act", "silu"},
      {"attention_bias", false},
      {"mlp_bias", false},
      {"tie_word_embeddings", true},
      {"torch_dtype", PlantDtypeName(options.dtype)},
      {"bos_token_id", 1},
      {"eos_token_id", 2},
      {kMark,
       {{"strength", report.strength},
        {"kappa", report.kappa},
        {"seed", options.seed},
        {"slashes", slashes}}},
  };
  return config.dump(2) + "\n";
}

std::vector<double> PlantFrequencies(const PlantOptions& options) {
  ModelConfig config;
  config.head_dim = options.head_dim;
  config.rope_theta = options.rope_theta;
  return InverseFrequencies(config);
}

}  // namespace

double MinimumPlantStrength(const std::vector<double>& inv_freq, int64_t context, double kappa) {
  double least = std::numeric_limits<double>::infinity();
  for (int64_t lag = 1; lag < context; ++lag) least = std::min(least, FallAtLag(inv_freq, lag));
  return std::log(2.0 / kappa) / least;
}

absl::StatusOr<PlantReport> Plant(const PlantOptions& options) {
  ROPELAB_RETURN_IF_ERROR(CheckOptions(options));
  const std::vector<double> inv_freq = PlantFrequencies(options);
  PlantReport report;
  report.kappa = options.kappa.value_or(6.0 / static_cast<double>(options.context));
  report.minimum_strength = MinimumPlantStrength(inv_freq, options.context, report.kappa);
  ROPELAB_ASSIGN_OR_RETURN(report.strength, ChooseStrength(options, report.minimum_strength));
  if (!options.slashes.empty() && report.strength < report.minimum_strength) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "strength %.6g is below the minimum %.6g for head-dim %d, rope-theta %g, context %d and kappa %.6g: "
        "other offsets "
        "would pass the threshold; raise the strength%s",
        report.strength, report.minimum_strength, options.head_dim, options.rope_theta, options.context,
        report.kappa,
        report.minimum_strength > kMaxStrength ? " is not enough here: lower rope-theta or the context"
                                               : ""));
  }
  report.planted = ExpectedScores(options, inv_freq, report.strength);
  report.uniform_score = MeanOverRows(LastDefaultOffset(options.context), options.context,
                                      [](int64_t row) { return 1.0 / static_cast<double>(row + 1); });
  ROPELAB_RETURN_IF_ERROR(PrepareDirectory(options.out));
  // The marked config goes first: an interrupted plant can be planted over.
  const std::filesystem::path out(options.out);
  report.files = {(out / "config.json").string(), (out / "model.safetensors").string()};
  ROPELAB_RETURN_IF_ERROR(WriteFileAtomically(report.files[0], ConfigJson(options, report)));
  ROPELAB_RETURN_IF_ERROR(
      WriteSafetensors(report.files[1], PlantTensors(options, inv_freq, report.strength)));
  return report;
}

std::string DescribePlant(const PlantReport& report) {
  std::string text = absl::StrFormat("strength %.6g (minimum %.6g for kappa %.6g)\n", report.strength,
                                     report.minimum_strength, report.kappa);
  for (const PlantedHead& planted : report.planted) {
    absl::StrAppendFormat(&text, "planted L%dH%d at offset %d: expected score %.6f\n", planted.slash.layer,
                          planted.slash.head, planted.slash.offset, planted.expected_score);
  }
  absl::StrAppendFormat(&text, "every other head attends uniformly: score %.6g, below kappa\n",
                        report.uniform_score);
  absl::StrAppend(&text,
                  "expect exactly the planted offsets with rows: COMMON; with rows: ALL each planted head's "
                  "best offset is "
                  "the planted one\n");
  for (const std::string& file : report.files) absl::StrAppend(&text, "wrote ", file, "\n");
  return text;
}

}  // namespace ropelab::formats
