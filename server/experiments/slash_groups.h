// A detection's readings, merged: what reducing it, and experiments that build on it, start from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/experiments/corpus_stages.h"
#include "server/experiments/maps_accumulator.h"
#include "server/experiments/slash_accumulator.h"
#include "server/experiments/slash_detection.h"

namespace ropelab::experiments {

// What was measured for one model and seed.
struct DetectionGroup {
  const ModelFacts* model = nullptr;  // of the context
  std::string label, dtype;
  int64_t seed = 0;
  std::vector<SlashAccumulator> ranges;  // as asked for
  MapsAccumulator maps;
  std::optional<CorpusChoice> choice;  // of prompts from a corpus
  int64_t in_corpus = 0;               // documents
};

// The stage of the slash profiles of a resolved detection, given that all stages before `stage` are complete;
// nullopt while it is not known. Errors: FollowCorpus'.
absl::StatusOr<std::optional<int64_t>> ProfileStage(const v1::ExperimentSpec& spec, const Context& context,
                                                    int64_t stage, StageReadings& readings);

// In plan order. `ranges`: those that were planned. INTERNAL when the readings are not those of the plan.
absl::StatusOr<std::vector<DetectionGroup>> ReadDetection(const v1::ExperimentSpec& spec,
                                                          const Context& context, StageReadings& readings,
                                                          const std::vector<MeasuredRange>& ranges);

// What the offsets asked for say of one head.
struct HeadFinding {
  std::optional<int64_t> best_offset;  // the smallest of a tie; none when no offset is reachable
  std::vector<int64_t> dominant_offsets;
};
HeadFinding FindingOf(const v1::SlashDetection& detection, const SlashAccumulator& scores, int64_t layer,
                      int64_t head);

}  // namespace ropelab::experiments
