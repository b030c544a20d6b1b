// Control heads: drawn at random from the heads that a comparison does not touch, in draws that are kept
// apart. EXPERIMENTS.md section 7.
//
// Draw `draw` of a seed is Philox(key = [seed, purpose random_heads], counter = [0, 0, draw, 0]): it shuffles
// the candidates, which stand in order of layer and head (docs/random-numbers.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ropelab/v1/model.pb.h"
#include "server/experiments/head_set.h"

namespace ropelab::experiments {

// Every head of the model that `avoided` does not name, ascending by layer and head, without offsets.
std::vector<NamedHead> HeadsOutside(const v1::ModelConfig& config, const std::vector<NamedHead>& avoided);

// The first `count` of the shuffled candidates, or all where there are fewer; ascending.
std::vector<NamedHead> RandomHeads(std::vector<NamedHead> candidates, int64_t count, uint64_t seed,
                                   int64_t draw);

// A layer that has fewer candidates than the compared set has heads.
struct LayerShortage {
  int64_t layer = 0, needed = 0, available = 0;
};
// Ascending by layer; empty where every layer has enough.
std::vector<LayerShortage> ShortagesOf(const std::vector<NamedHead>& compared,
                                       const std::vector<NamedHead>& candidates);
// "layer 3 has 1 of 2 heads", one after the other.
std::string DescribeShortages(const std::vector<LayerShortage>& shortages);

// As many heads a layer as `compared` has there, or all where there are fewer: of the shuffled candidates the
// first ones of each layer; ascending.
std::vector<NamedHead> LayerMatchedHeads(const std::vector<NamedHead>& compared,
                                         std::vector<NamedHead> candidates, uint64_t seed, int64_t draw);

}  // namespace ropelab::experiments
