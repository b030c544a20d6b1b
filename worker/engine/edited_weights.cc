#include "worker/engine/edited_weights.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "worker/engine/spectrum.h"
#include "worker/model/int8_weights.h"

namespace ropelab::engine {
namespace {

struct Replaced {
  at::Tensor rows;  // [D, d] within the copy
  int64_t rank;
};

}  // namespace

LowRanks ThoseThatEdit(const LowRanks& ranks, const formats::ModelConfig& config) {
  const int64_t full = std::min(config.head_dim, config.hidden_size);
  LowRanks edits = ranks;
  std::erase_if(edits, [full](const auto& named) { return named.second >= full; });
  return edits;
}

at::Tensor BestOfRank(const at::Tensor& rows, int64_t rank) {
  const at::NoGradGuard no_gradients;
  const at::Tensor wide = rows.to(at::kCPU, at::kDouble);
  GramSum gram;
  gram.Add(wide.t());
  const int64_t kept = std::min(rank, wide.size(0));
  const at::Tensor leading = EigenOf(gram.sum(), /*vectors=*/true).vectors.narrow(1, 0, kept);
  return at::mm(leading, at::mm(leading.t(), wide));
}

model::LayerWeights LowRankLayer(const model::LoadedModel& model, int64_t layer, const LowRanks& ranks) {
  const at::NoGradGuard no_gradients;
  const int64_t head_dim = model.config.head_dim;
  model::LayerWeights weights = model.weights.layers[layer];
  std::set<Projection> copied;
  std::vector<Replaced> replaced;
  for (const auto& [matrix, rank] : ThoseThatEdit(ranks, model.config)) {
    if (matrix.layer != layer) continue;
    at::Tensor& projection = matrix.projection == Projection::kQuery ? weights.query : weights.key;
    if (copied.insert(matrix.projection).second) {
      at::Tensor& scale = matrix.projection == Projection::kQuery ? weights.query_scale : weights.key_scale;
      // Widening makes a copy of its own.
      projection =
          scale.defined() ? model::WidenedRows(projection, scale, 0, projection.size(0)) : projection.clone();
      scale = at::Tensor();
    }
    replaced.push_back({projection.narrow(0, matrix.head * head_dim, head_dim), rank});
  }
  // Inside a parallel region BLAS and LAPACK keep to the calling thread; a single item would be run outside
  // of one, hence at least two.
  const int64_t items = static_cast<int64_t>(replaced.size());
  at::parallel_for(0, std::max<int64_t>(items, 2), 1, [&](int64_t begin, int64_t end) {
    const at::NoGradGuard no_gradients_here;
    for (int64_t item = begin; item < std::min(end, items); ++item) {
      const Replaced& head = replaced[static_cast<size_t>(item)];
      head.rows.copy_(BestOfRank(head.rows, head.rank));
    }
  });
  return weights;
}

int64_t LowRankBytes(const model::LoadedModel& model, const LowRanks& ranks, int threads) {
  const formats::ModelConfig& config = model.config;
  std::set<std::pair<int64_t, Projection>> copied;
  int64_t copies = 0;
  const LowRanks edits = ThoseThatEdit(ranks, config);
  for (const auto& [matrix, rank] : edits) {
    if (!copied.insert({matrix.layer, matrix.projection}).second) continue;
    const int64_t heads = matrix.projection == Projection::kQuery ? config.query_heads : config.kv_heads;
    copies +=
        heads * config.head_dim * config.hidden_size * static_cast<int64_t>(c10::elementSize(model.dtype));
  }
  // Per thread the head in double, its product with the eigenvectors, the result, and one of them once more
  // in another order; the Gram matrix, its eigenvectors, LAPACK's copy and workspace.
  const int64_t doubles = 4 * config.head_dim * config.hidden_size + 8 * config.head_dim * config.head_dim;
  const int64_t working = std::min<int64_t>(threads, static_cast<int64_t>(edits.size()));
  return copies + working * doubles * static_cast<int64_t>(sizeof(double));
}

}  // namespace ropelab::engine
