// Copies of a model's query and key projections in which named heads have a lower rank. The model's own
// weights are never changed. EXPERIMENTS.md sections 5 and 9.
#pragma once

#include <ATen/ATen.h>

#include <compare>
#include <cstdint>
#include <map>

#include "worker/engine/decoder.h"
#include "worker/model/loaded_model.h"

namespace ropelab::engine {

enum class Projection { kQuery, kKey };

// The D rows of one head in a layer's projection; `head` is a query head, or of kKey a KV head.
struct HeadMatrix {
  int64_t layer = 0;
  Projection projection = Projection::kQuery;
  int64_t head = 0;
  auto operator<=>(const HeadMatrix&) const = default;
};

// The rank that each of these is to have, 1 or more. In order of layers.
using LowRanks = std::map<HeadMatrix, int64_t>;

// Leaves out what is no edit: a rank of head_dim or of hidden_size, or more, which no matrix [D, d] exceeds.
LowRanks ThoseThatEdit(const LowRanks& ranks, const formats::ModelConfig& config);

// The best approximation of `rows` [D, d] (any floating dtype) of rank `rank` in the Frobenius norm, by
// Eckart and Young: U U' W with U the leading `rank` eigenvectors of W W'. Double, on the CPU.
at::Tensor BestOfRank(const at::Tensor& rows, int64_t rank);

// `layer`'s weights with the matrices that `ranks` names there replaced, each by its BestOfRank rounded to
// the weights' dtype (of an int8 projection fp32, in which its other heads keep their numbers), and
// everything else shared with the model; biases stay. Heads lie within the config. A matrix's bits depend
// neither on the number of threads nor on what else is named.
model::LayerWeights LowRankLayer(const model::LoadedModel& model, int64_t layer, const LowRanks& ranks);

// Bytes that LowRankLayer of every layer in `ranks` leaves allocated together, and while it works besides.
int64_t LowRankBytes(const model::LoadedModel& model, const LowRanks& ranks, int threads);

}  // namespace ropelab::engine
