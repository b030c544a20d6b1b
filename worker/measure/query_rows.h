// WeightProfile of the query projections' rows: the utility of query dimensions. EXPERIMENTS.md section 8.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "ropelab/v1/measurement.pb.h"
#include "worker/measure/measurement.h"
#include "worker/model/loaded_model.h"

namespace ropelab::measure {

// Emits a QueryRowNorms per layer: in double, the sum over the row of |w|, w as it is held in the loaded
// dtype (int8 with its scale). With fold_norm w is multiplied by the weight of the norm before attention
// first, 1 + weight in families that add one; where there is no such norm it changes nothing. Weights of a
// norm of the queries themselves never count. Row r is dimension r mod D of head r / D. The recorder's
// errors.
absl::Status MeasureQueryRows(const v1::QueryRows& request, const model::LoadedModel& model,
                              Recorder& recorder);
// Bytes beside the weights, at most.
int64_t QueryRowsBytes(const model::LoadedModel& model, int threads);

}  // namespace ropelab::measure
