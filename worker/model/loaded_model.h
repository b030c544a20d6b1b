// A checkpoint in memory, ready for the decoder. Plain tensors under the names that the decoder uses; how a
// family calls them on disk ends in the loader.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "worker/formats/model_config.h"

namespace ropelab::model {

// Projections are [out, in] as Hugging Face stores them, contiguous. An undefined tensor is a part that the
// family lacks.
//
// Of a model that was loaded as INT8 the seven projections are int8, and each has a scale per row: the
// number that row r stands for is weight[r] * scale[r] (int8_weights.h). Of all others the scales are
// undefined. What reads a projection by itself widens it first, with WidenedRows.
struct LayerWeights {
  at::Tensor attention_norm;     // [d]; undefined with NormPlacement::kAfter
  at::Tensor query, key, value;  // [H*D, d], [G*D, d], [G*D, d]
  at::Tensor query_bias, key_bias, value_bias;
  at::Tensor query_norm, key_norm;  // QueryKeyNorm: [D] each, or [H*D] and [G*D]
  at::Tensor output;                // [d, H*D]
  at::Tensor output_bias;
  at::Tensor attention_out_norm;  // [d], of what attention adds to the residual; undefined with kBefore
  at::Tensor mlp_norm;            // [d]; undefined with kAfter
  at::Tensor gate, up;            // [m, d]
  at::Tensor gate_bias, up_bias;
  at::Tensor down;  // [d, m]
  at::Tensor down_bias;
  at::Tensor mlp_out_norm;  // [d], of what the MLP adds; undefined with kBefore
  // [out] fp32 each; INT8 alone.
  at::Tensor query_scale, key_scale, value_scale, output_scale, gate_scale, up_scale, down_scale;
};

struct Weights {
  at::Tensor embedding;  // [V, d]
  std::vector<LayerWeights> layers;
  at::Tensor final_norm;  // [d]
  at::Tensor lm_head;     // [V, d]; the embedding itself when tied
};

struct LoadedModel {
  std::string directory;
  formats::ModelConfig config;
  at::ScalarType dtype;  // of the activations and of all weights, but for INT8's projections
  at::Device device = at::kCPU;
  Weights weights;
  std::vector<double> inv_freq;  // of a short prompt; formats::InverseFrequencies gives a length's own
  int64_t bytes = 0;             // resident
};

// What asks for INT8 weights where a dtype is named: projections as int8_weights.h says, everything else and
// the activations in fp32, so that LoadedModel::dtype is kFloat.
inline constexpr at::ScalarType kInt8Weights = at::kChar;

// Device choice for the whole process lives here.
absl::StatusOr<at::Device> ParseDevice(const std::string& name);  // "cpu", "cuda:0"

// Bytes that the weights will take in `dtype`: kFloat, kBFloat16, kHalf or kInt8Weights. Reads config.json
// and the shards' headers alone, with the errors that LoadModel has for them.
absl::StatusOr<int64_t> ModelBytes(const std::string& directory, at::ScalarType dtype);

// Reads config.json and every shard. Errors name the file and the tensor: missing, wrong shape or dtype, NaN
// or infinity. `memory_limit` in bytes, 0: none; a model that does not fit is refused before a weight is
// read, with the figures (ResourceExhausted). Resident memory stays within the model's bytes, mapped pages
// of the file counted, and some MiB.
absl::StatusOr<std::shared_ptr<const LoadedModel>> LoadModel(
    const std::string& directory, at::ScalarType dtype, at::Device device, int64_t memory_limit,
    absl::FunctionRef<void(int64_t done, int64_t total)> progress);

}  // namespace ropelab::model
