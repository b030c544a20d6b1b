#include <string>

#include "absl/strings/str_cat.h"
#include "server/experiments/checkpoint_sweep.h"
#include "server/experiments/detection.h"
#include "server/experiments/needles.h"
#include "server/experiments/sweep_runs.h"

namespace ropelab::experiments {
namespace {

constexpr char kCheckpoints[] = "checkpoint_sweep.checkpoints";
constexpr int64_t kSamplesPerCell = 2;  // the retrieval paper's, section 5
constexpr int64_t kSmoothingWindow = 5;

std::string At(int checkpoint) {
  return absl::StrCat(kCheckpoints, "[", checkpoint, "]");
}

// All or none have them, and they grow.
void CheckTokens(const v1::CheckpointSweep& sweep, Problems& problems) {
  for (int i = 0; i < sweep.checkpoints_size(); ++i) {
    const v1::Checkpoint& checkpoint = sweep.checkpoints(i);
    const std::string field = At(i) + ".tokens_seen";
    if (checkpoint.has_tokens_seen() != sweep.checkpoints(0).has_tokens_seen()) {
      problems.Add(field, checkpoint.has_tokens_seen() ? absl::StrCat(checkpoint.tokens_seen()) : "",
                   "give tokens_seen for every checkpoint, or for none");
      return;
    }
    if (!checkpoint.has_tokens_seen()) {
      continue;
    }
    if (checkpoint.tokens_seen() < 0) {
      problems.Add(field, absl::StrCat(checkpoint.tokens_seen()), "at least 0 tokens");
    } else if (i > 0 && checkpoint.tokens_seen() <= sweep.checkpoints(i - 1).tokens_seen()) {
      problems.Add(
          field, absl::StrCat(checkpoint.tokens_seen()),
          absl::StrCat("is not above the ", sweep.checkpoints(i - 1).tokens_seen(),
                       " of the checkpoint before it; name the checkpoints in the order of training"));
    }
  }
}

// A training keeps its shape; curves over models of several shapes would mean nothing.
void CheckShapes(const v1::CheckpointSweep& sweep, const Facts& facts, Problems& problems) {
  const auto shape = [](const v1::ModelConfig& config) {
    return absl::StrCat(config.layers(), " layers of ", config.query_heads(), " heads of ",
                        config.head_dim());
  };
  for (size_t i = 1; i < facts.models.size(); ++i) {
    const std::string first = shape(facts.models[0].config), this_one = shape(facts.models[i].config);
    if (first != this_one) {
      problems.Add(At(static_cast<int>(i)) + ".model", sweep.checkpoints(static_cast<int>(i)).model(),
                   absl::StrCat("has ", this_one, ", but the first checkpoint has ", first,
                                "; a sweep follows one training"));
    }
    const std::string& hash = facts.models[i].weights_hash;
    if (!hash.empty() && hash == facts.models[i - 1].weights_hash) {
      problems.Add(At(static_cast<int>(i)) + ".model", sweep.checkpoints(static_cast<int>(i)).model(),
                   absl::StrCat("holds the same weights as the checkpoint before it, ",
                                sweep.checkpoints(static_cast<int>(i) - 1).model(), " (", hash.substr(0, 16),
                                "); put the right weights into their folders, or leave one of them out"));
    }
  }
}

}  // namespace

void CheckpointSweepExperiment::Resolve(v1::ExperimentSpec& spec, const Facts& facts,
                                        Problems& problems) const {
  v1::CheckpointSweep& sweep = *spec.mutable_checkpoint_sweep();
  if (sweep.checkpoints_size() < 2) {
    problems.Add(kCheckpoints, absl::StrCat(sweep.checkpoints_size()),
                 "name at least two checkpoints { model tokens_seen } in the order of training");
  }
  CheckTokens(sweep, problems);
  // With a model that was not found, those that were stand at other places.
  if (facts.models.size() == static_cast<size_t>(sweep.checkpoints_size())) {
    CheckShapes(sweep, facts, problems);
  }
  NeedleDefaults needles;
  needles.samples_per_cell = kSamplesPerCell;
  ResolveDetection(*sweep.mutable_detection(), "checkpoint_sweep.detection", needles, spec, facts, problems);
  if (!sweep.has_smoothing_window()) {
    sweep.set_smoothing_window(kSmoothingWindow);
  } else if (sweep.smoothing_window() < 1 || sweep.smoothing_window() % 2 == 0) {
    problems.Add("checkpoint_sweep.smoothing_window", absl::StrCat(sweep.smoothing_window()),
                 "a centred median takes an odd number of checkpoints");
  }
  if (!sweep.has_onset_detector()) {
    sweep.set_onset_detector(v1::OnsetDetector::SMOOTHED);
  }
  if (problems.empty()) {
    CheckRunSizes(sweep.detection(), "checkpoint_sweep.detection", /*dtypes=*/1, spec, facts, problems);
  }
}

}  // namespace ropelab::experiments
