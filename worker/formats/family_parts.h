// What several families read in the same way.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/formats/config_fields.h"
#include "worker/formats/model_config.h"

namespace ropelab::formats {

// What the family's Hugging Face class assumes where config.json is silent.
struct FamilyDefaults {
  int64_t max_positions = 0;
  double rms_norm_eps = 1e-6;
  int64_t head_dim = 0;  // 0: hidden_size / num_attention_heads
  bool tied_embeddings = false;
  std::vector<int32_t> bos;  // empty: none
  std::vector<int32_t> eos;
};

// Sizes, norm epsilon, attention scale, tied embeddings and special ids; every layer without a window. A
// field that no family here computes (mixture of experts, clipped projections, attention to both sides) is
// refused by name.
void ReadCommon(ConfigFields& fields, ModelConfig& config, const FamilyDefaults& defaults);

// `name` holds the activation's name; `missing` where it is missing or null.
Activation ReadActivation(ConfigFields& fields, const char* name, Activation missing);

// attention_bias: on all four projections of attention, none when missing.
void ReadAttentionBias(ConfigFields& fields, ModelConfig& config);

}  // namespace ropelab::formats
