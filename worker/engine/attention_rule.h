// What turns the products of a layer's queries and keys into logits. One rule for a whole prompt and for
// decoding.
#pragma once

#include <algorithm>
#include <cstdint>

#include "worker/formats/model_config.h"

namespace ropelab::engine {

struct AttentionRule {
  int64_t window = 0;   // keys that a row sees, its own included; 0: all before it
  double scale = 1.0;   // multiplies q·k
  double soft_cap = 0;  // c: the scaled logit x becomes c tanh(x / c), before the mask; 0: none

  // The first key that a row at `position` sees.
  int64_t FirstKey(int64_t position) const {
    return window > 0 ? std::max<int64_t>(0, position + 1 - window) : 0;
  }
};

inline AttentionRule RuleOf(const formats::ModelConfig& config, int64_t layer) {
  const int64_t window = config.sliding_window.empty() ? 0 : config.sliding_window[layer];
  return {window, config.attention_scale, config.attention_soft_cap};
}

}  // namespace ropelab::engine
