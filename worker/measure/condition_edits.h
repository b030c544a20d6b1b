// The interventions of a task, as the engine takes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "ropelab/v1/interventions.pb.h"
#include "worker/engine/edited_weights.h"
#include "worker/engine/edits.h"
#include "worker/formats/model_config.h"
#include "worker/model/loaded_model.h"

namespace ropelab::measure {

using Interventions = google::protobuf::RepeatedPtrField<v1::Intervention>;

// One condition: both parts together.
struct ReadEdits {
  engine::HeadEdits heads;
  engine::LowRanks ranks;
};

// All kinds, everything said as a resolved spec says it: heads listed one by one, target, stage, factor and
// positions written out. Edits of heads keep their order, and within one edit that of its heads; a scaling by
// 0 is zero_dims. Pairs of the message count from 1, those of HeadEdit from 0. Of ranks: what changes nothing
// (head_dim or more) is left out, a key projection is there once however many of its query heads are named,
// and one that several edits name gets the lowest of their ranks, which is what they give one after the
// other.
// `question_start`: the position from which positions QUESTION reaches to the end of the answer.
// INVALID_ARGUMENT, starting with `path` and the place of the edit: what is missing, unknown or not in the
// model; QUESTION without a question_start; positions and position_range together.
absl::StatusOr<ReadEdits> ReadInterventions(const Interventions& interventions, const std::string& path,
                                            const formats::ModelConfig& config,
                                            std::optional<int64_t> question_start);

// INVALID_ARGUMENT for an edit that begins behind a prompt of so many tokens, where it would do nothing.
absl::Status CheckReached(const ReadEdits& edits, int64_t tokens);

// The first layer that either part touches; the number of layers where there is none.
int64_t FirstEditedLayer(const ReadEdits& edits, const formats::ModelConfig& config);

// The layers that `ranks` edit, ready for ForwardOptions.edited_layers; LowRankBytes says what they take.
engine::EditedLayers MakeEditedLayers(const model::LoadedModel& model, const engine::LowRanks& ranks);

}  // namespace ropelab::measure
