// Everything that differs between families, as plain data. A family's table row fills it from config.json;
// the decoder and the server's planner read it and nothing else. No torch here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ropelab::formats {

enum class Dtype { kFloat32, kBFloat16, kFloat16 };

enum class RopeScalingKind { kNone, kLinear, kLlama3, kYarn, kDynamic, kLongRope };
// Fields that a kind does not use keep their defaults, so that they never move a config hash.
struct RopeScaling {
  RopeScalingKind kind = RopeScalingKind::kNone;
  double factor = 1.0;
  double low_freq_factor = 1.0;        // llama3
  double high_freq_factor = 4.0;       // llama3
  int64_t original_max_positions = 0;  // llama3, yarn, dynamic, longrope
  double beta_fast = 32.0;             // yarn
  double beta_slow = 1.0;              // yarn
  bool truncate = true;                // yarn: whether the correction range is rounded to whole pairs
  // yarn, longrope: cos and sin are multiplied by it, with every rule for a missing one applied.
  double attention_factor = 1.0;
  std::vector<double> short_factor, long_factor;  // longrope, one per pair
  bool operator==(const RopeScaling&) const = default;
};

enum class Activation { kSilu, kGelu, kGeluTanh };
// Which of the block's norms there are: before attention and MLP (llama), before and after both (gemma2),
// after both and none before (olmo2).
enum class NormPlacement { kBefore, kBeforeAndAfter, kAfter };
// RMS norm of query and key after their bias and before RoPE: each head's D dimensions by themselves with one
// weight [D] for all heads (qwen3), or all heads' dimensions together with a weight over all of them (olmo2).
enum class QueryKeyNorm { kNone, kPerHead, kAllHeads };

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
  bool norm_adds_one = false;  // every norm multiplies by 1 + weight, in fp32 (gemma)
  bool norm_rounds_last =
      false;  // norms round to the activations' dtype after the weight, not before (olmo2)
  NormPlacement norm_placement = NormPlacement::kBefore;
  QueryKeyNorm query_key_norm = QueryKeyNorm::kNone;
  double embedding_scale = 1;  // multiplies the embedding, after rounding to the activations' dtype (gemma)
  double rope_theta = 10000;
  RopeScaling rope_scaling;
  double attention_scale = 0;     // multiplies q·k
  double attention_soft_cap = 0;  // c: logits become c tanh(scaled logit / c) before the mask; 0: none
  double final_soft_cap = 0;      // the same for the output logits
  Activation activation = Activation::kSilu;
  bool tied_embeddings = false;
  bool qkv_bias = false;
  bool output_bias = false;
  bool mlp_bias = false;
  std::vector<int64_t> sliding_window;  // one per layer, keys seen with the row's own; 0: none
  Dtype dtype = Dtype::kFloat32;        // the checkpoint's own
  std::optional<int32_t> bos_token_id;
  std::vector<int32_t> eos_token_ids;
};

// inv_freq of pairs 1..D/2 in storage order for a prompt of `tokens` tokens, as Hugging Face's fp32 values
// (computed as it does, in fp32), widened. The length matters to dynamic and longrope alone.
std::vector<double> InverseFrequencies(const ModelConfig& config, int64_t tokens = 1);
// Whether InverseFrequencies depends on its length.
bool FrequenciesDependOnLength(const ModelConfig& config);

// Canonical text of the resolved config, "name=value" lines in a fixed order: what the config hash is taken
// over. A part that a config does not use has no line, so that a new part moves no hash of an old model.
std::string CanonicalConfigText(const ModelConfig& config);

}  // namespace ropelab::formats
