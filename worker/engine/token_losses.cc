#include "worker/engine/token_losses.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/engine/layer_ops.h"
#include "worker/engine/layer_steps.h"

namespace ropelab::engine {
namespace {

// Of one row of logits [V]; NaN where one of them is not finite.
double LossOf(const at::Tensor& logits, int64_t target) {
  const at::Tensor wide = logits.to(at::kDouble);
  // A sum of doubles that hold fp32 numbers is finite exactly when all of them are.
  if (!std::isfinite(wide.sum().item<double>())) return std::numeric_limits<double>::quiet_NaN();
  return at::logsumexp(wide, 0).item<double>() - wide[target].item<double>();
}

}  // namespace

TokenLosses::TokenLosses(const model::LoadedModel& model)
    : model_(model), lm_head_(model.weights.lm_head.to(ProductType(model.dtype, model.device))) {}

absl::StatusOr<double> TokenLosses::Summed(const at::Tensor& residual, std::span<const int32_t> ids) const {
  const int64_t rows = static_cast<int64_t>(ids.size()) - 1;
  std::vector<double> losses(static_cast<size_t>(std::max<int64_t>(rows, 0)));
  const auto run = [&](int64_t begin, int64_t end) {
    const at::NoGradGuard no_gradients;
    for (int64_t first = begin * kLossRows; first < std::min(end * kLossRows, rows); first += kLossRows) {
      const int64_t count = std::min(kLossRows, rows - first);
      const at::Tensor logits =
          OutputLogits(residual.narrow(0, first, count), model_.weights.final_norm, lm_head_, model_.config)
              .cpu();
      for (int64_t row = 0; row < count; ++row)
        losses[first + row] = LossOf(logits[row], ids[first + row + 1]);
    }
  };
  // Inside a parallel region BLAS keeps to the calling thread; a single chunk would be run outside of one,
  // hence at least two.
  const int64_t chunks = std::max<int64_t>((rows + kLossRows - 1) / kLossRows, 2);
  if (model_.device.is_cpu()) {
    at::parallel_for(0, chunks, 1, run);
  } else {
    run(0, chunks);
  }
  double sum = 0;
  for (size_t row = 0; row < losses.size(); ++row) {
    if (!std::isfinite(losses[row])) {
      return absl::FailedPreconditionError(
          absl::StrCat("an output logit at position ", row,
                       " is NaN or infinite: the last block's MLP, the final norm or lm_head does not "
                       "compute in this dtype (FLOAT32 or BFLOAT16 reach further than FLOAT16)"));
    }
    sum += losses[row];
  }
  return sum;
}

int64_t TokenLosses::Bytes(const model::LoadedModel& model, int64_t tokens, int threads) {
  const formats::ModelConfig& c = model.config;
  const int64_t wide = sizeof(float);
  const int64_t widened =
      ProductType(model.dtype, model.device) == model.dtype ? 0 : wide * c.vocabulary * c.hidden_size;
  const int64_t rows = std::min(tokens, kLossRows * threads) * wide * (3 * c.vocabulary + 6 * c.hidden_size);
  // One row in double, and what logsumexp makes of it.
  const int64_t row = threads * 4 * c.vocabulary * static_cast<int64_t>(sizeof(double));
  return widened + rows + row;
}

}  // namespace ropelab::engine
