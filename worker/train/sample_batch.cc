#include "worker/train/sample_batch.h"

namespace ropelab::train {

SampleBatch MakeBatch(const std::vector<TrainingSample>& samples) {
  const auto count = static_cast<int64_t>(samples.size());
  const auto tokens = static_cast<int64_t>(samples.at(0).ids.size());
  const at::Tensor ids = at::empty({count, tokens}, at::kLong);
  const at::Tensor roles = at::empty({count, tokens}, at::kLong);
  for (int64_t i = 0; i < count; ++i) {
    const TrainingSample& sample = samples[static_cast<size_t>(i)];
    for (int64_t j = 0; j < tokens; ++j) {
      ids.data_ptr<int64_t>()[i * tokens + j] = sample.ids[static_cast<size_t>(j)];
      roles.data_ptr<int64_t>()[i * tokens + j] = static_cast<int64_t>(sample.roles[static_cast<size_t>(j)]);
    }
  }
  const at::Tensor of_targets = roles.slice(1, 1);
  const auto counts = [&](Role role) { return of_targets.eq(static_cast<int64_t>(role)).to(at::kFloat); };
  return {ids.slice(1, 0, tokens - 1).contiguous(), ids.slice(1, 1).contiguous(), counts(Role::kText),
          counts(Role::kAnswer)};
}

}  // namespace ropelab::train
