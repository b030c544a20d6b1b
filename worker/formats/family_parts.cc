#include "worker/formats/family_parts.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"

namespace ropelab::formats {
namespace {

// Far beyond any model there is: a larger number is a broken file, and the products of these fit 64 bits.
constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxHeads = 65536;
constexpr int64_t kMaxHeadDim = 8192;
constexpr int64_t kMaxWidth = int64_t{1} << 22;
constexpr int64_t kMaxVocabulary = int64_t{1} << 24;
constexpr int64_t kMaxPositions = int64_t{1} << 30;

void RefuseWhatIsNotBuilt(ConfigFields& fields) {
  for (const char* name : {"num_local_experts", "num_experts", "n_routed_experts", "num_experts_per_tok"}) {
    if (fields.Has(name)) {
      fields.Refuse(name, "present", "mixtures of experts are not read; give a dense checkpoint");
    }
  }
  if (fields.Has("clip_qkv")) {
    fields.Refuse("clip_qkv", "set", "clipped projections are not computed: null or absent");
  }
  if (fields.Boolean("use_bidirectional_attention", false)) {
    fields.Refuse("use_bidirectional_attention", "true", "attention is causal here: false, null or absent");
  }
}

void ReadHeads(ConfigFields& fields, ModelConfig& config, int64_t missing_head_dim) {
  config.hidden_size = fields.Integer("hidden_size", 1, kMaxWidth, std::nullopt);
  config.query_heads = fields.Integer("num_attention_heads", 1, kMaxHeads, std::nullopt);
  config.kv_heads = fields.Integer("num_key_value_heads", 1, kMaxHeads, config.query_heads);
  if (config.query_heads % config.kv_heads != 0) {
    fields.Refuse("num_key_value_heads", absl::StrCat(config.kv_heads),
                  absl::StrCat("it must divide num_attention_heads, ", config.query_heads));
  }
  if (missing_head_dim == 0) {
    missing_head_dim = config.hidden_size / config.query_heads;
    if (!fields.Has("head_dim") && config.hidden_size % config.query_heads != 0) {
      fields.Refuse("head_dim", "missing",
                    absl::StrCat("give it: hidden_size ", config.hidden_size,
                                 " is no multiple of num_attention_heads ", config.query_heads));
    }
  }
  config.head_dim = fields.Integer("head_dim", 2, kMaxHeadDim, missing_head_dim);
  if (config.head_dim < 2 || config.head_dim > kMaxHeadDim || config.head_dim % 2 != 0) {
    fields.Refuse("head_dim", absl::StrCat(config.head_dim),
                  absl::StrCat("it must be even and from 2 to ", kMaxHeadDim, ": RoPE turns pairs"));
  }
  if (config.query_heads * config.head_dim > kMaxWidth) {
    fields.Refuse("num_attention_heads", absl::StrCat(config.query_heads),
                  absl::StrCat("heads times head_dim ", config.head_dim, " must be at most ", kMaxWidth));
  }
  config.attention_scale = 1.0 / std::sqrt(static_cast<double>(config.head_dim));
}

// A default that a small vocabulary does not hold is no token of this model.
std::vector<int32_t> ReadIds(ConfigFields& fields, const char* name, std::vector<int32_t> missing,
                             int64_t vocabulary) {
  missing.erase(std::remove_if(missing.begin(), missing.end(), [&](int32_t id) { return id >= vocabulary; }),
                missing.end());
  return fields.TokenIds(name, missing);
}

void ReadSpecialIds(ConfigFields& fields, ModelConfig& config, const FamilyDefaults& defaults) {
  const std::vector<int32_t> bos = ReadIds(fields, "bos_token_id", defaults.bos, config.vocabulary);
  if (bos.size() > 1) fields.Refuse("bos_token_id", "a list", "it must be one token id or null");
  // A BOS without an embedding can be put before no prompt; all else is computed without it.
  if (!bos.empty() && bos[0] < config.vocabulary) config.bos_token_id = bos[0];
  config.eos_token_ids = ReadIds(fields, "eos_token_id", defaults.eos, config.vocabulary);
}

}  // namespace

void ReadCommon(ConfigFields& fields, ModelConfig& config, const FamilyDefaults& defaults) {
  RefuseWhatIsNotBuilt(fields);
  config.layers = fields.Integer("num_hidden_layers", 1, kMaxLayers, std::nullopt);
  ReadHeads(fields, config, defaults.head_dim);
  config.intermediate_size = fields.Integer("intermediate_size", 1, kMaxWidth, std::nullopt);
  config.vocabulary = fields.Integer("vocab_size", 1, kMaxVocabulary, std::nullopt);
  config.max_positions = fields.Integer("max_position_embeddings", 1, kMaxPositions, defaults.max_positions);
  config.rms_norm_eps = fields.Number("rms_norm_eps", 0.0, 0.1, defaults.rms_norm_eps);
  config.tied_embeddings = fields.Boolean("tie_word_embeddings", defaults.tied_embeddings);
  config.sliding_window.assign(static_cast<size_t>(config.layers), 0);
  ReadSpecialIds(fields, config, defaults);
}

Activation ReadActivation(ConfigFields& fields, const char* name, Activation missing) {
  if (!fields.Has(name)) return missing;
  const std::string text = fields.Text(name, "");
  if (text == "silu" || text == "swish") return Activation::kSilu;
  if (text == "gelu") return Activation::kGelu;
  // Two names of one formula.
  if (text == "gelu_pytorch_tanh" || text == "gelu_new") return Activation::kGeluTanh;
  fields.Refuse(name, absl::StrCat("\"", text, "\""),
                "this activation is not known; known are silu, gelu and gelu_pytorch_tanh");
  return missing;
}

void ReadAttentionBias(ConfigFields& fields, ModelConfig& config) {
  config.qkv_bias = fields.Boolean("attention_bias", false);
  config.output_bias = config.qkv_bias;
}

}  // namespace ropelab::formats
