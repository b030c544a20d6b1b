// The interventions of a task, as the engine takes them.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "ropelab/v1/interventions.pb.h"
#include "worker/engine/edited_weights.h"
#include "worker/formats/model_config.h"

namespace ropelab::measure {

using Interventions = google::protobuf::RepeatedPtrField<v1::Intervention>;

// The rank that each head's projection is to have under all of them. Matrices that change nothing (rank of
// head_dim or more) are left out. A key projection belongs to a KV head and is there once however many of its
// query heads are named. One that several edits name gets the lowest of their ranks, which is what they give
// one after the other.
// INVALID_ARGUMENT, starting with `path` and the place of the edit: a kind other than low_rank, by its name;
// a rank below 1; matrices that are none, unknown or named twice; heads that are none, not listed one by one,
// not complete, or not in the model.
absl::StatusOr<engine::LowRanks> ReadLowRanks(const Interventions& interventions, const std::string& path,
                                              const formats::ModelConfig& config);

}  // namespace ropelab::measure
