// Every embedding row has the constant 1 first and signs after it, so all rows have mean square 1 and the RMS
// norm returns the constant as exactly 1 whatever the token and the dtype. Queries and keys read that
// coordinate alone. Output and down projections are zero, so every layer sees the embedding itself.
//
// A key is (1, 0) in every RoPE pair, and a planted query is t (cos θΔ, -sin θΔ): after RoPE the pair
// contributes t cos(θ (i - Δ - j)) to q·k, and t = A sqrt(D) makes the scaled logit Σ A cos(θ (i - j - Δ)).
// The offset is in the query, so heads that share a key may have different ones.
#include "worker/formats/plant_tensors.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/formats/half.h"

namespace ropelab::formats {
namespace {

// SplitMix64: one 64-bit word per token.
uint64_t TokenWord(uint64_t seed, int64_t token) {
  uint64_t word = seed + (static_cast<uint64_t>(token) + 1) * 0x9e3779b97f4a7c15ULL;
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9ULL;
  word = (word ^ (word >> 27)) * 0x94d049bb133111ebULL;
  return word ^ (word >> 31);
}

NamedTensor Encode(std::string name, Dtype dtype, std::vector<int64_t> shape,
                   const std::vector<float>& values) {
  NamedTensor tensor{std::move(name), "F32", std::move(shape), {}};
  if (dtype == Dtype::kFloat32) {
    tensor.bytes.resize(values.size() * sizeof(float));
    std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
    return tensor;
  }
  tensor.dtype = dtype == Dtype::kBFloat16 ? "BF16" : "F16";
  tensor.bytes.resize(values.size() * sizeof(uint16_t));
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t word = dtype == Dtype::kBFloat16 ? ToBFloat16(values[i]) : ToFloat16(values[i]);
    std::memcpy(tensor.bytes.data() + i * sizeof(word), &word, sizeof(word));
  }
  return tensor;
}

std::vector<float> Embedding(const PlantOptions& options) {
  std::vector<float> rows(static_cast<size_t>(options.vocab * kPlantHidden));
  for (int64_t token = 0; token < options.vocab; ++token) {
    const uint64_t word = TokenWord(options.seed, token);
    float* row = rows.data() + token * kPlantHidden;
    row[0] = 1;
    for (int64_t i = 1; i < kPlantHidden; ++i) row[i] = (word >> i) & 1 ? 1.0f : -1.0f;
  }
  return rows;
}

// [H D, d], only the first column set, only in rows of planted heads.
std::vector<float> Queries(const PlantOptions& options, int64_t layer, const std::vector<double>& inv_freq,
                           double strength) {
  const int64_t half = options.head_dim / 2;
  const double length = strength * std::sqrt(static_cast<double>(options.head_dim));
  std::vector<float> weight(static_cast<size_t>(options.heads * options.head_dim * kPlantHidden));
  for (const PlantedSlash& slash : options.slashes) {
    if (slash.layer != layer) continue;
    for (int64_t pair = 0; pair < half; ++pair) {
      const double angle = inv_freq[static_cast<size_t>(pair)] * static_cast<double>(slash.offset);
      const int64_t row = slash.head * options.head_dim + pair;
      weight[static_cast<size_t>(row * kPlantHidden)] = static_cast<float>(length * std::cos(angle));
      weight[static_cast<size_t>((row + half) * kPlantHidden)] =
          static_cast<float>(-length * std::sin(angle));
    }
  }
  return weight;
}

// [G D, d]: (1, 0) in every pair of every KV head.
std::vector<float> Keys(const PlantOptions& options) {
  std::vector<float> weight(static_cast<size_t>(options.kv_heads * options.head_dim * kPlantHidden));
  for (int64_t row = 0; row < options.kv_heads * options.head_dim; ++row) {
    if (row % options.head_dim < options.head_dim / 2) weight[static_cast<size_t>(row * kPlantHidden)] = 1;
  }
  return weight;
}

}  // namespace

std::string PlantDtypeName(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat32:
      return "float32";
    case Dtype::kBFloat16:
      return "bfloat16";
    case Dtype::kFloat16:
      return "float16";
  }
  return "";
}

std::vector<NamedTensor> PlantTensors(const PlantOptions& options, const std::vector<double>& inv_freq,
                                      double strength) {
  std::vector<NamedTensor> tensors;
  const auto add = [&](std::string name, std::vector<int64_t> shape, const std::vector<float>& values) {
    tensors.push_back(Encode(std::move(name), options.dtype, std::move(shape), values));
  };
  const auto constant = [](int64_t rows, int64_t columns, float value) {
    return std::vector<float>(static_cast<size_t>(rows * columns), value);
  };
  const int64_t d = kPlantHidden;
  const int64_t m = kPlantIntermediate;
  const int64_t query_rows = options.heads * options.head_dim;
  const int64_t key_rows = options.kv_heads * options.head_dim;
  add("model.embed_tokens.weight", {options.vocab, d}, Embedding(options));
  for (int64_t layer = 0; layer < options.layers; ++layer) {
    const std::string prefix = absl::StrCat("model.layers.", layer, ".");
    add(prefix + "input_layernorm.weight", {d}, constant(1, d, 1));
    add(prefix + "self_attn.q_proj.weight", {query_rows, d}, Queries(options, layer, inv_freq, strength));
    add(prefix + "self_attn.k_proj.weight", {key_rows, d}, Keys(options));
    add(prefix + "self_attn.v_proj.weight", {key_rows, d}, constant(key_rows, d, 0));
    add(prefix + "self_attn.o_proj.weight", {d, query_rows}, constant(d, query_rows, 0));
    add(prefix + "post_attention_layernorm.weight", {d}, constant(1, d, 1));
    add(prefix + "mlp.gate_proj.weight", {m, d}, constant(m, d, 0));
    add(prefix + "mlp.up_proj.weight", {m, d}, constant(m, d, 0));
    add(prefix + "mlp.down_proj.weight", {d, m}, constant(d, m, 0));
  }
  // Tied logits are then 2 for the token itself and between -2 and 2 for others: sampling from the model
  // stays varied.
  add("model.norm.weight", {d}, constant(1, d, 2.0f / static_cast<float>(d)));
  return tensors;
}

}  // namespace ropelab::formats
