// WeightProfile over the vocabulary: layer 0's queries and keys of every token, how they align with the
// projections' singular directions, and the cone around the strongest one. EXPERIMENTS.md section 3.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "ropelab/v1/measurement.pb.h"
#include "worker/measure/measurement.h"
#include "worker/model/loaded_model.h"

namespace ropelab::measure {

// Emits a VocabularySide for the query, then one for the key. `request` has a vocabulary and an energy within
// (0, 1]; without norm_weight the weight counts. A token with W x = 0 is left out of both alignment means,
// one with x = 0 out of the cosines; what is then undefined is NaN. INVALID_ARGUMENT: tokens or
// random_vectors out of range. FAILED_PRECONDITION: the embedding or layer 0 does not compute in the model's
// dtype.
absl::Status MeasureVocabulary(const v1::WeightProfile& request, const model::LoadedModel& model,
                               Recorder& recorder);
// What it needs beside the weights; the same for every size of the vocabulary.
int64_t VocabularyBytes(const v1::VocabularyProfile& request, const model::LoadedModel& model);

}  // namespace ropelab::measure
