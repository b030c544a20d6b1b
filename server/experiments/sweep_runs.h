// A detection of retrieval heads and the utilities of query dimensions on several models, each at one dtype
// or several: what a checkpoint_sweep and a precision_test are made of.
//
// Stages: that of the needles where several tokenizers need one (needles.h), then one that measures: dtype by
// dtype and model by model the detection's tasks, seed by seed and block by block, and one of query rows. The
// measurements are those of retrieval_detection and utility_test, so that what one experiment measured no
// other measures again.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/experiments/detection.h"
#include "server/experiments/experiment.h"
#include "server/experiments/needles.h"
#include "server/experiments/utilities.h"

namespace ropelab::experiments {

// What was measured of one model at one dtype.
struct SweepRun {
  const ModelFacts* model = nullptr;  // of the context
  std::string label;                  // of the model, as the resolved spec has it
  v1::Dtype::Value dtype = v1::Dtype::UNSPECIFIED;
  std::vector<DetectionScores> seeds;  // one per seed of the spec
  Utilities utilities;
};
struct SweepReadings {
  std::vector<SweepRun> runs;  // as the tasks stand: dtype by dtype, then model by model
  Table needle_samples;
};

// `variants`: the resolved spec once per dtype, that dtype set in it (or, alone and without one, every model
// at its checkpoint's own). nullopt after the last stage. Errors: those of FindNeedles and IdentityOf.
absl::StatusOr<std::optional<StagePlan>> PlanRuns(const v1::RetrievalDetection& detection,
                                                  std::span<const v1::ExperimentSpec> variants,
                                                  const Context& context, int64_t stage,
                                                  StageReadings& readings);

// `context` must outlive what is returned. INTERNAL: the readings are not those of the plan; errors of
// FindNeedles and DetectionScores.
absl::StatusOr<SweepReadings> ReadRuns(const v1::RetrievalDetection& detection,
                                       std::span<const v1::ExperimentSpec> variants, const Context& context,
                                       StageReadings& readings);

// Adds what makes resolved runs at each of `dtypes` too large: rows, tasks, or permutations that the server
// makes of them (sweep_statistics.h). Paths start with `path`, the detection's.
void CheckRunSizes(const v1::RetrievalDetection& detection, const std::string& path, int64_t dtypes,
                   const v1::ExperimentSpec& spec, const Facts& facts, Problems& problems);

v1::Estimate CostOfRuns(const v1::RetrievalDetection& detection, std::span<const v1::ExperimentSpec> variants,
                        const Facts& facts);

}  // namespace ropelab::experiments
