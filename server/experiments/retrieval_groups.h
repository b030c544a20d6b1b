// What a retrieval detection found, per model and seed: what its tables are made of.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "server/experiments/detection.h"
#include "server/experiments/needles.h"

namespace ropelab::experiments {

struct RetrievalGroup {
  const ModelFacts* model = nullptr;  // of the context
  DetectionPlace place;
  DetectionScores scores;
  int64_t kept = 0, dropped = 0;  // needle samples
};

// The readings of the measuring stage, and each sample as it was realised into `samples`. Groups stand model
// by model, seed by seed. INTERNAL: the readings are not those of the plan, or not of every sample; errors of
// FindNeedles and of DetectionScores::Add.
absl::StatusOr<std::vector<RetrievalGroup>> ReadRetrieval(const v1::ExperimentSpec& spec,
                                                          const Context& context, StageReadings& readings,
                                                          NeedleSamplesTable& samples);

}  // namespace ropelab::experiments
