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
  const at::Tensor of_targets = roles.slice(1, 1), own = roles.slice(1, 0, tokens - 1);
  const auto where = [](const at::Tensor& part, Role role) {
    return part.eq(static_cast<int64_t>(role)).to(at::kFloat);
  };
  return {
      ids.slice(1, 0, tokens - 1).contiguous(),
      ids.slice(1, 1).contiguous(),
      where(of_targets, Role::kText) + where(of_targets, Role::kNeedle) + where(of_targets, Role::kQuestion),
      where(of_targets, Role::kAnswer),
      where(own, Role::kNeedle),
      where(own, Role::kQuestion) + where(own, Role::kAnswer)};
}

}  // namespace ropelab::train
