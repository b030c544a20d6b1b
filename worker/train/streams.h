// The trainer's own streams of random numbers (common/philox.h), keyed by (recipe's seed, stream) with a
// counter of their own. Their numbers lie above those of the experiments; docs/random-numbers.md lists them.
#pragma once

#include <cstdint>

#include "common/philox.h"

namespace ropelab::train {

enum class Stream : uint64_t {
  kTokenizerText = 1001,  // sample: 0; one stream for the whole text
  kWeights = 1002,        // sample: number of the tensor, in the order of Parameters()
  kSamples = 1003,        // sample: step, second word: number within the step
  kStepLength = 1004,     // sample: step
  kEvaluation = 1005,     // sample: number of the needle, second word: prompt length
  kHeadDropout = 1006,    // sample: step
  kGaze = 1007,           // sample: step
};

// `second` sets samples of one number apart; numpy: Philox(key=[seed, stream], counter=[0, 0, sample,
// second]).
inline Philox MakeStream(uint64_t seed, Stream stream, uint64_t sample, uint64_t second = 0) {
  return Philox({seed, static_cast<uint64_t>(stream)}, {0, 0, sample, second});
}

}  // namespace ropelab::train
