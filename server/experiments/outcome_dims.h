// How many dimensions of a head an edit takes, and which: by frequency, by utility or at random.
// EXPERIMENTS.md section 9; docs/experiments/patch.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/experiments/experiment.h"

namespace ropelab::experiments {

// The share of head_dim as a count of dimensions, taken as its decimal; nullopt where it gives no whole
// number.
std::optional<int64_t> DimsOfShare(double share, int64_t head_dim);

// Whether a share, or a count, is one that every model's heads have: whole, 1 to head_dim and, with
// `whole_pairs`, even. A refusal names the nearest that would do.
void CheckDimsShare(double share, const std::string& path, bool whole_pairs, const Facts& facts,
                    Problems& problems);
void CheckDims(int64_t dims, const std::string& path, bool whole_pairs, const Facts& facts,
               Problems& problems);

// Storage indices, from 0, ascending, `count` of them.
using Dims = std::vector<int32_t>;

// Whole pairs, `count` even: those of the lowest (or highest) angular frequency of the config. Pair l (from
// 0) is dimensions l and l + head_dim / 2. Of equal frequencies the one that is stored later counts as the
// lower.
Dims LowestFrequencyDims(const v1::ModelConfig& config, int64_t count);
Dims HighestFrequencyDims(const v1::ModelConfig& config, int64_t count);

// Draw `draw` of one head: the first of the shuffled dimensions, or with `pairs` of the shuffled pairs.
// Philox(key = [seed, purpose random_dims], counter = [0, draw, layer, head]). A larger count holds the
// smaller one's. docs/random-numbers.md.
Dims RandomDimsOf(int64_t head_dim, int64_t count, bool pairs, uint64_t seed, int64_t draw, int64_t layer,
                  int64_t head);

}  // namespace ropelab::experiments
