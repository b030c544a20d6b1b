#include "worker/measure/query_rows.h"

#include <ATen/ATen.h>

#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "worker/measure/weight_one_thread.h"
#include "worker/model/int8_weights.h"

namespace ropelab::measure {
namespace {

// [d] in double; undefined where nothing is folded in.
at::Tensor FoldedNorm(const model::LayerWeights& weights, const formats::ModelConfig& config) {
  if (!weights.attention_norm.defined()) return {};
  return weights.attention_norm.to(at::kCPU, at::kDouble) + (config.norm_adds_one ? 1.0 : 0.0);
}

v1::Reading NormsOfLayer(int64_t layer, const model::LoadedModel& model, bool fold_norm) {
  const formats::ModelConfig& config = model.config;
  const model::LayerWeights& weights = model.weights.layers[static_cast<size_t>(layer)];
  const at::Tensor norm = fold_norm ? FoldedNorm(weights, config) : at::Tensor();
  std::vector<double> sums(static_cast<size_t>(config.query_heads * config.head_dim));
  EachOnOneThread(config.query_heads, [&](int64_t head) {
    const int64_t first = head * config.head_dim;
    at::Tensor rows = model::WidenedRows(weights.query, weights.query_scale, first, config.head_dim)
                          .to(at::kCPU, at::kDouble);
    if (norm.defined()) rows = rows * norm;
    const at::Tensor sum = rows.abs().sum(1);
    for (int64_t dim = 0; dim < config.head_dim; ++dim) {
      sums[static_cast<size_t>(first + dim)] = sum[dim].item<double>();
    }
  });
  v1::Reading reading;
  v1::QueryRowNorms& said = *reading.mutable_query_row_norms();
  said.set_layer(static_cast<int32_t>(layer));
  said.set_heads(config.query_heads);
  said.set_head_dim(config.head_dim);
  said.mutable_norm()->Add(sums.begin(), sums.end());
  return reading;
}

}  // namespace

absl::Status MeasureQueryRows(const v1::QueryRows& request, const model::LoadedModel& model,
                              Recorder& recorder) {
  const at::NoGradGuard no_gradients;
  for (int64_t layer = 0; layer < model.config.layers; ++layer) {
    ROPELAB_RETURN_IF_ERROR(recorder.Emit(NormsOfLayer(layer, model, request.fold_norm()), {}));
    ROPELAB_RETURN_IF_ERROR(
        recorder.Progress(static_cast<double>(layer + 1), static_cast<double>(model.config.layers)));
  }
  return absl::OkStatus();
}

int64_t QueryRowsBytes(const model::LoadedModel& model, int threads) {
  const int64_t d = model.config.hidden_size, rows = model.config.head_dim;
  // Per thread a head as it is held, widened, times the norm, its absolute values; the norm.
  const int64_t doubles = threads * (4 * rows * d + 2 * rows) + 2 * d;
  return (doubles + 2 * model.config.query_heads * rows) * static_cast<int64_t>(sizeof(double));
}

}  // namespace ropelab::measure
