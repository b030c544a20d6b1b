// The families of models that ropelab reads, one row each: what config.json means and how the tensors are
// called.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "worker/formats/config_fields.h"
#include "worker/formats/model_config.h"

namespace ropelab::formats {

// Names on disk. Layer tensors are "<layer_prefix><layer>.<name>"; a bias stands beside its weight.
struct WeightNames {
  std::string_view embedding = "model.embed_tokens.weight";
  std::string_view final_norm = "model.norm.weight";
  std::string_view lm_head = "lm_head.weight";
  std::string_view layer_prefix = "model.layers.";
  std::string_view attention_norm = "input_layernorm.weight";
  std::string_view query = "self_attn.q_proj";
  std::string_view key = "self_attn.k_proj";
  std::string_view value = "self_attn.v_proj";
  std::string_view output = "self_attn.o_proj";
  std::string_view query_norm = "self_attn.q_norm.weight";
  std::string_view key_norm = "self_attn.k_norm.weight";
  std::string_view attention_out_norm = "post_attention_layernorm.weight";  // where outputs are normed
  std::string_view mlp_norm = "post_attention_layernorm.weight";
  std::string_view mlp_out_norm = "post_feedforward_layernorm.weight";
  std::string_view gate = "mlp.gate_proj";
  std::string_view up = "mlp.up_proj";
  std::string_view down = "mlp.down_proj";
  // Ends of names that older tools stored and that are computed from the config instead.
  std::vector<std::string_view> ignored_suffixes = {"rotary_emb.inv_freq"};
};

struct Family {
  std::string_view model_type;
  // Fills everything but `family` and `dtype`. The fields collect errors: the first one is the reader's
  // result.
  void (*read)(ConfigFields& fields, ModelConfig& config);
  WeightNames names;
};

// Every family, in the order in which messages list them.
const std::vector<Family>& Families();
// Null for an unknown model_type.
const Family* FindFamily(std::string_view model_type);

}  // namespace ropelab::formats
