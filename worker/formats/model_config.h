// Everything that differs between families, as plain data. A family's table row fills it from config.json;
// the decoder and the server's planner read it and nothing else. No torch here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ropelab::formats {

enum class Dtype { kFloat32, kBFloat16, kFloat16 };

enum class RopeScalingKind { kNone, kLlama3 };
struct RopeScaling {
  RopeScalingKind kind = RopeScalingKind::kNone;
  double factor = 1.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  int64_t original_max_positions = 0;
};

enum class Activation { kSilu };

struct ModelConfig {
  std::string family;  // model_type
  int64_t layers = 0;
  int64_t query_heads = 0;
  int64_t kv_heads = 0;  // query head h uses KV head h / (query_heads / kv_heads)
  int64_t head_dim = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t vocabulary = 0;  // rows of the embedding
  int64_t max_positions = 0;
  double rms_norm_eps = 0;
  double rope_theta = 10000;
  RopeScaling rope_scaling;
  double attention_scale = 0;  // multiplies q·k
  Activation activation = Activation::kSilu;
  bool tied_embeddings = false;
  bool qkv_bias = false;
  bool output_bias = false;
  bool mlp_bias = false;
  std::vector<int64_t> sliding_window;  // one per layer; 0: none
  Dtype dtype = Dtype::kFloat32;        // the checkpoint's own
  std::optional<int32_t> bos_token_id;
  std::vector<int32_t> eos_token_ids;
};

// inv_freq of pairs 1..D/2 in storage order, as Hugging Face's fp32 values (computed as it does, in fp32),
// widened.
std::vector<double> InverseFrequencies(const ModelConfig& config);

// Canonical text of the resolved config, "name=value" lines in a fixed order: what the config hash is taken
// over.
std::string CanonicalConfigText(const ModelConfig& config);

}  // namespace ropelab::formats
