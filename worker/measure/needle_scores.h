// What one needle sample says of every head: where it looks when the answer begins, and where it looks while
// the answer is spelt. EXPERIMENTS.md section 7.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "ropelab/v1/measurement.pb.h"
#include "ropelab/v1/reading.pb.h"
#include "worker/measure/needle_prompts.h"
#include "worker/model/loaded_model.h"

namespace ropelab::measure {

// Which of the metrics are taken.
struct NeedleMetrics {
  bool argmax = false;
  bool mass = false;
  bool copy_paper = false;
  bool copy_paper_per_token = false;
  bool copy_wu = false;
  v1::Span::Value span = v1::Span::UNSPECIFIED;  // of argmax and mass

  bool last_row() const { return argmax || mass; }
  bool copies() const { return copy_paper || copy_paper_per_token || copy_wu; }
};

// INVALID_ARGUMENT naming the field: metrics that are none, unknown, not ascending or named twice; argmax or
// mass without a span.
absl::StatusOr<NeedleMetrics> ReadNeedleMetrics(const v1::NeedleAttention& request);

// One pass over `forced.ids`, the prompt followed by its answer; without copies `forced` holds the prompt
// alone. With a = the prompt's last position, per head, sums in double:
//   argmax: 1 where the largest probability of row a, the first of a tie, lies in the span, else 0;
//   mass: sum of row a over the span;
//   copy_paper: sum over the needle span of each answer token's own row, mean over the answer's tokens;
//   copy_paper_per_token: of those rows the probability of the needle's token that spells the same;
//   copy_wu: share of the answer's tokens in whose predicting row (the one before) that token has the
//   largest probability, the first of a tie.
// An answer token that the needle does not hold counts 0 in the last two. Positions outside a sliding window
// have probability 0. The result holds needle.facts. `progress` is asked after each layer; its error ends the
// pass. Errors: engine::Forward's; INTERNAL for spans or occurrences outside the prompt.
absl::StatusOr<v1::NeedleHeads> ScoreNeedle(const model::LoadedModel& model, const RealisedNeedle& needle,
                                            const ForcedAnswer& forced, const NeedleMetrics& metrics,
                                            absl::FunctionRef<absl::Status()> progress);

// Bytes beside the weights, at most, of a sequence of `tokens` tokens of which `answer` are the answer's: a
// forward pass, and a number per layer, head, row and metric.
int64_t ScoreNeedleBytes(const model::LoadedModel& model, int64_t tokens, int64_t answer, int threads);

}  // namespace ropelab::measure
