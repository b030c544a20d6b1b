// One set of prompts under one edit of the model after the other: what lies below an edit is computed once.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/engine/decoder.h"
#include "worker/engine/edited_weights.h"
#include "worker/engine/token_losses.h"
#include "worker/measure/condition_edits.h"
#include "worker/measure/measurement.h"
#include "worker/measure/prompts.h"

namespace ropelab::measure {

// Conditions are taken in the order of their first edited layer. The pass without edits is carried from one
// such layer to the next, one residual a prompt, and each condition starts from there; so that pass costs one
// forward pass of each prompt whatever the number of conditions, and all that is kept of it at a time is what
// enters one layer. An edited copy of the weights is made once, for all prompts, and is gone before the next.
class ConditionRuns {
 public:
  // `edits`: one per condition, ranks as ThoseThatEdit gives them; without any it is the model as it is.
  // `first_sample` names prompts in errors. All references must outlive this.
  ConditionRuns(const model::LoadedModel& model, const std::vector<TokenIds>& prompts, int64_t first_sample,
                const std::vector<ReadEdits>& edits, Recorder& recorder);

  // Summed negative log-likelihoods, [condition][prompt]. Progress after every layer of every pass, and of
  // every edited layer. Errors: the engine's, with the sample and condition; the recorder's.
  absl::StatusOr<std::vector<std::vector<double>>> Run();

  // Bytes beside the weights, at most, for prompts of `tokens` tokens.
  static int64_t Bytes(const model::LoadedModel& model, int64_t prompts, int64_t tokens,
                       const std::vector<ReadEdits>& edits, int threads);

 private:
  class Watch;

  absl::StatusOr<engine::EditedLayers> MakeEdits(const engine::LowRanks& ranks);
  absl::Status CarryTo(int64_t layer);
  absl::StatusOr<std::vector<double>> LossesUnder(const engine::EditedLayers& edited, size_t condition);
  absl::Status Named(const absl::Status& status, size_t prompt, const std::string& what) const;
  absl::Status Progress() { return recorder_.Progress(done_, total_); }
  // Where the conditions in hand start.
  engine::ForwardOptions FromHere(size_t prompt) const;

  const model::LoadedModel& model_;
  const std::vector<TokenIds>& prompts_;
  const int64_t first_sample_;
  const std::vector<ReadEdits>& edits_;
  Recorder& recorder_;
  const engine::TokenLosses losses_;
  int64_t layer_ = 0;                  // that the residuals enter
  std::vector<at::Tensor> residuals_;  // one per prompt, [T, d]; undefined at layer 0
  double done_ = 0, total_ = 0;        // layers of passes
};

}  // namespace ropelab::measure
