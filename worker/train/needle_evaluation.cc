#include "worker/train/needle_evaluation.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "common/status_macros.h"
#include "worker/train/sample_batch.h"
#include "worker/train/training_samples.h"

namespace ropelab::train {
namespace {

constexpr int64_t kTokensAtOnce = 8192;

}  // namespace

absl::StatusOr<int64_t> RightAnswers(const TrainableModel& model, const SampleText& text,
                                     const Recipe& recipe, int64_t tokens, int64_t first, int64_t count,
                                     double depth) {
  const at::NoGradGuard no_gradients;
  const int64_t at_once = std::max<int64_t>(1, kTokensAtOnce / tokens);
  int64_t right = 0;
  for (int64_t begin = first; begin < first + count; begin += at_once) {
    std::vector<TrainingSample> samples;
    for (int64_t i = begin; i < std::min(begin + at_once, first + count); ++i) {
      const double there = depth < 0 ? kDepths[static_cast<size_t>(i) % std::size(kDepths)] : depth;
      ROPELAB_ASSIGN_OR_RETURN(TrainingSample sample,
                               EvaluationSample(text, recipe, tokens, there, static_cast<uint64_t>(i)));
      samples.push_back(std::move(sample));
    }
    const SampleBatch batch = MakeBatch(samples);
    const at::Tensor guess = model.Run(batch.ids, {}).logits.argmax(-1);
    right += guess.eq(batch.targets).logical_or(batch.answers.eq(0)).all(1).sum().item<int64_t>();
  }
  return right;
}

}  // namespace ropelab::train
