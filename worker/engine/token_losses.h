// What a model makes of the tokens of a prompt: their negative log-likelihood.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "worker/model/loaded_model.h"

namespace ropelab::engine {

// Rows of output logits that a thread holds at once. Part of what decides bits.
inline constexpr int64_t kLossRows = 64;

class TokenLosses {
 public:
  // Holds a copy of lm_head where products need it wider (made once here). The model must outlive this.
  explicit TokenLosses(const model::LoadedModel& model);

  // Sum over i = 1 .. T-1 of -log p(ids[i] | ids[0 .. i-1]), in nats: the logarithm of the sum of
  // exponentials over the whole vocabulary and the sum over tokens in double, of fp32 output logits (soft cap
  // included, rounded to the activations' dtype). `residual` [T, d]: the last block's output before the final
  // norm. Rows run in chunks of kLossRows, one thread each, so the bits depend on no number of threads.
  // FAILED_PRECONDITION naming the position whose logits are not finite.
  absl::StatusOr<double> Summed(const at::Tensor& residual, std::span<const int32_t> ids) const;

  // Bytes that an object and one call of Summed allocate at most.
  static int64_t Bytes(const model::LoadedModel& model, int64_t tokens, int threads);

 private:
  const model::LoadedModel& model_;
  at::Tensor lm_head_;
};

}  // namespace ropelab::engine
