// What a model answers to needle prompts under one set of edits after the other. EXPERIMENTS.md section 9.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "ropelab/v1/measurement.pb.h"
#include "worker/measure/measurement.h"
#include "worker/model/loaded_model.h"

namespace ropelab::measure {

// Emits a NeedleAnswer per sample and condition, sample by sample. An answer is at most answer_tokens greedy
// tokens, ended by one of the config's EOS ids; its text leaves special tokens out, and it is correct where
// the text holds the code, upper and lower case told apart. Conditions without low ranks share what lies
// below their edits; those with low ranks run in groups whose edited projections take half of the weights'
// bytes at most, or one condition's. An answer's bits depend on no other condition. `request` holds needle
// prompts and at least one condition; resources a model and a tokenizer. Errors, naming the sample:
// RealiseNeedles', ReadInterventions', AnswerGreedily's; INVALID_ARGUMENT for answer_tokens below 1 and a
// sample that does not fit its context length.
absl::StatusOr<Outcome> MeasureAnswers(const v1::ConditionOutcomes& request, const Resources& resources,
                                       Recorder& recorder);
// Bytes beside the weights, at most.
int64_t AnswersBytes(const v1::ConditionOutcomes& request, const model::LoadedModel& model, int threads);

}  // namespace ropelab::measure
