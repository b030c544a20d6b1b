#include "worker/train/shallow_prompts.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "worker/engine/random.h"

namespace ropelab::train {
namespace {

// Uniform on the sphere of radius sqrt(d), so that the mean is 0 and the covariance the identity.
std::vector<double> DrawTask(engine::Philox& stream, int64_t dims, const TaskLaw& law) {
  std::vector<double> task(static_cast<size_t>(dims));
  stream.Normals(task);
  double square = 0;
  for (const double value : task) square += value * value;
  const double radius = law.scale * std::sqrt(static_cast<double>(dims) / square);
  for (double& value : task) value = value * radius + law.shift;
  return task;
}

}  // namespace

absl::Status CheckShape(const ShallowShape& shape) {
  if (shape.features < 1) {
    return absl::InvalidArgumentError(absl::StrCat("features is ", shape.features, "; give at least 1"));
  }
  if (shape.pairs < 1) {
    return absl::InvalidArgumentError(absl::StrCat("pairs is ", shape.pairs, "; give at least 1"));
  }
  if (shape.offset < 1 || shape.pairs % shape.offset != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("offset is ", shape.offset, "; it must divide the number of pairs, ", shape.pairs));
  }
  return absl::OkStatus();
}

ShallowBatch DrawPrompts(const ShallowShape& shape, const TaskLaw& law, uint64_t seed, uint64_t purpose,
                         int64_t first, int64_t count) {
  const int64_t dims = shape.feature_dims();
  ShallowBatch batch;
  batch.semantic = at::zeros({count, shape.positions(), shape.semantic_dims()}, at::kDouble);
  batch.answer = at::zeros({count}, at::kDouble);
  batch.matches = at::zeros({count, shape.positions()}, at::kDouble);
  auto semantic = batch.semantic.accessor<double, 3>();
  auto answer = batch.answer.accessor<double, 1>();
  auto matches = batch.matches.accessor<double, 2>();
  std::vector<int64_t> features(static_cast<size_t>(shape.pairs));
  for (int64_t b = 0; b < count; ++b) {
    engine::Philox stream({seed, purpose}, {0, 0, static_cast<uint64_t>(first + b), 0});
    for (int64_t& feature : features) feature = static_cast<int64_t>(stream.Integer(shape.features));
    const auto question = static_cast<int64_t>(stream.Integer(shape.features));
    const std::vector<double> task = DrawTask(stream, dims, law);
    for (int64_t pair = 0; pair < shape.pairs; ++pair) {
      const int64_t feature = features[pair];
      const int64_t label = shape.LabelPosition(pair);
      semantic[b][shape.InputPosition(pair)][feature] = 1;
      semantic[b][label][dims] = 1;
      semantic[b][label][dims + 1] = task[feature];
      if (feature == question) matches[b][label] = 1;
    }
    semantic[b][shape.positions() - 1][question] = 1;
    answer[b] = task[question];
  }
  return batch;
}

}  // namespace ropelab::train
