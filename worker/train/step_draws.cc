#include "worker/train/step_draws.h"

#include <algorithm>
#include <vector>

#include "common/philox.h"
#include "worker/train/streams.h"

namespace ropelab::train {
namespace {

// Steps that take the curriculum's present length; the others take one before it.
constexpr double kPresentLength = 0.7;
// Half the prompts are shorter by up to a quarter, so that no distance is left out.
constexpr double kShortened = 0.5;
constexpr uint64_t kLargestCut = 4;

}  // namespace

int64_t StepLength(const Recipe& recipe, int64_t step, int64_t stage) {
  Philox stream = MakeStream(recipe.seed, Stream::kStepLength, static_cast<uint64_t>(step));
  int64_t length = recipe.curriculum.lengths[static_cast<size_t>(stage)];
  if (stage > 0 && stream.Double() >= kPresentLength) {
    length = recipe.curriculum.lengths[stream.Integer(static_cast<uint64_t>(stage))];
  }
  const bool shorter = stream.Double() < kShortened;
  const int64_t cut = static_cast<int64_t>(stream.Integer(static_cast<uint64_t>(length) / kLargestCut));
  return shorter ? std::max(length - cut, kShortestPrompt) : length;
}

double PressureAt(const Recipe& recipe, int64_t step) {
  const HeadPressure& heads = recipe.heads;
  return std::clamp(static_cast<double>(step - heads.start) / static_cast<double>(heads.warmup), 0.0, 1.0);
}

at::Tensor HeadScale(const Recipe& recipe, int64_t step, int64_t batch) {
  const std::vector<double>& shares = recipe.heads.dropout;
  const double pressure = PressureAt(recipe, step);
  if (shares.empty() || pressure == 0) return {};
  Philox stream = MakeStream(recipe.seed, Stream::kHeadDropout, static_cast<uint64_t>(step));
  at::Tensor scale = at::empty({batch, recipe.shape.layers, recipe.shape.heads}, at::kFloat);
  float* values = scale.data_ptr<float>();
  for (int64_t i = 0; i < batch; ++i) {
    const double strength = 2 * pressure * stream.Double();
    for (const double of_layer : shares) {
      const double share = strength * of_layer;
      for (int64_t h = 0; h < recipe.shape.heads; ++h) {
        *values++ = stream.Double() < share ? 0.0f : static_cast<float>(1 / (1 - share));
      }
    }
  }
  return scale;
}

}  // namespace ropelab::train
