#include "worker/session/config_message.h"

#include <algorithm>
#include <optional>
#include <set>

namespace ropelab::session {

v1::Dtype::Value ToMessage(formats::Dtype dtype) {
  switch (dtype) {
    case formats::Dtype::kFloat32:
      return v1::Dtype::FLOAT32;
    case formats::Dtype::kBFloat16:
      return v1::Dtype::BFLOAT16;
    case formats::Dtype::kFloat16:
      return v1::Dtype::FLOAT16;
  }
  return v1::Dtype::UNSPECIFIED;
}

int64_t CountParameters(const formats::ModelConfig& config) {
  const int64_t d = config.hidden_size;
  const int64_t m = config.intermediate_size;
  const int64_t query_rows = config.query_heads * config.head_dim;
  const int64_t kv_rows = config.kv_heads * config.head_dim;
  int64_t layer = config.norm_placement == formats::NormPlacement::kBeforeAndAfter ? 4 * d : 2 * d;
  if (config.query_key_norm == formats::QueryKeyNorm::kPerHead) layer += 2 * config.head_dim;
  if (config.query_key_norm == formats::QueryKeyNorm::kAllHeads) layer += query_rows + kv_rows;
  layer += (query_rows + 2 * kv_rows) * d + d * query_rows;  // q, k, v, o
  layer += 3 * m * d;                                        // gate, up, down
  if (config.qkv_bias) layer += query_rows + 2 * kv_rows;
  if (config.output_bias) layer += d;
  if (config.mlp_bias) layer += 2 * m + d;
  const int64_t embeddings = config.vocabulary * d * (config.tied_embeddings ? 1 : 2);
  return embeddings + config.layers * layer + d;
}

TokenizerFacts FactsOf(const formats::Tokenizer& tokenizer) {
  return {tokenizer.vocabulary(), tokenizer.special_ids(), tokenizer.prefix_ids()};
}

namespace {

void AddTokens(const formats::ModelConfig& config, const TokenizerFacts* tokenizer,
               v1::ModelConfig& message) {
  std::optional<int32_t> bos = config.bos_token_id;
  std::set<int32_t> special(config.eos_token_ids.begin(), config.eos_token_ids.end());
  if (bos) special.insert(*bos);
  int64_t vocabulary = config.vocabulary;
  message.set_has_tokenizer(tokenizer != nullptr);
  if (tokenizer != nullptr) {
    vocabulary = std::min(vocabulary, tokenizer->vocabulary);
    for (const int32_t id : tokenizer->special_ids) {
      if (id < vocabulary) special.insert(id);
    }
    // A BOS without an embedding can be put before no prompt.
    if (tokenizer->prefix_ids.size() == 1 && tokenizer->prefix_ids[0] < vocabulary) {
      bos = tokenizer->prefix_ids[0];
      message.set_tokenizer_adds_bos(true);
      special.insert(*bos);
    }
  }
  message.set_vocabulary(vocabulary);
  if (bos) message.set_bos_token_id(*bos);
  message.mutable_special_token_ids()->Add(special.begin(), special.end());
  message.mutable_eos_token_ids()->Add(config.eos_token_ids.begin(), config.eos_token_ids.end());
}

}  // namespace

v1::ModelConfig ToMessage(const formats::ModelConfig& config, const TokenizerFacts* tokenizer) {
  v1::ModelConfig message;
  message.set_family(config.family);
  message.set_layers(config.layers);
  message.set_query_heads(config.query_heads);
  message.set_kv_heads(config.kv_heads);
  message.set_head_dim(config.head_dim);
  message.set_hidden_size(config.hidden_size);
  message.set_intermediate_size(config.intermediate_size);
  message.set_max_positions(config.max_positions);
  message.mutable_sliding_window()->Add(config.sliding_window.begin(), config.sliding_window.end());
  const std::vector<double> inverse = formats::InverseFrequencies(config);
  message.mutable_inv_freq()->Add(inverse.begin(), inverse.end());
  AddTokens(config, tokenizer, message);
  message.set_dtype(ToMessage(config.dtype));
  message.set_parameters(CountParameters(config));
  message.set_tied_embeddings(config.tied_embeddings);
  return message;
}

}  // namespace ropelab::session
