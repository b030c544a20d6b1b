// A checkpoint built by hand whose slash heads are known: constant queries and keys, everything else silent
// (EXPERIMENTS.md 14).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/formats/model_config.h"

namespace ropelab::formats {

struct PlantedSlash {
  int64_t layer = 0;
  int64_t head = 0;    // query head
  int64_t offset = 0;  // Δ*: the head looks at position i - offset
};

struct PlantOptions {
  std::string out;  // directory; made if missing, refused if it already holds a checkpoint
  int64_t layers = 1;
  int64_t heads = 8;
  int64_t kv_heads = 8;
  int64_t head_dim = 64;
  int64_t vocab = 256;
  int64_t context = 4096;
  Dtype dtype = Dtype::kFloat32;
  double rope_theta = 10000;
  std::optional<double> strength;  // A; absent: 1.05 times the minimum
  uint64_t seed = 0;               // of the embedding's signs
  std::vector<PlantedSlash> slashes;
  std::optional<double> kappa;  // threshold that detection will use; absent: 6 / context
};

struct PlantedHead {
  PlantedSlash slash;
  // Mean of S[i, i - offset] over rows i >= max(offset, ⌊5 context/6⌋) + 4 of a prompt of `context` tokens:
  // what detection reads with `rows: common` over offsets ⌈context/12⌉..⌊5 context/6⌋, in exact arithmetic.
  double expected_score = 0;
};

struct PlantReport {
  double minimum_strength = 0;
  double strength = 0;
  double kappa = 0;
  double uniform_score = 0;  // of every unplanted head, over the rows i >= ⌊5 context/6⌋ + 4
  std::vector<PlantedHead> planted;
  std::vector<std::string> files;  // written
};

// Least A for which no lag other than the planted one reaches kappa / 2:
// ln(2 / kappa) / min over x in [1, context) of sum over pairs of (1 - cos θ x). Frequencies in rad/token.
double MinimumPlantStrength(const std::vector<double>& inv_freq, int64_t context, double kappa);

// Writes config.json and model.safetensors of a llama checkpoint. A planted head's scaled logit is
// sum over pairs of A cos(θ (i - j - offset)); an unplanted head's is exactly 0. Errors name the option, its
// value and what would be right; a strength below the minimum is refused with the minimum.
absl::StatusOr<PlantReport> Plant(const PlantOptions& options);

// What to expect of the checkpoint, for people: a few lines, ends in a newline.
std::string DescribePlant(const PlantReport& report);

}  // namespace ropelab::formats
