// What a SlashProfile takes of named heads besides their scores: scores under removals, and mean maps.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ropelab/v1/measurement.pb.h"
#include "worker/engine/map_sums.h"
#include "worker/engine/removal_scores.h"
#include "worker/measure/measurement.h"
#include "worker/measure/slash_scoring.h"
#include "worker/model/loaded_model.h"

namespace ropelab::measure {

// The heads as the engine takes them. INVALID_ARGUMENT, naming the head: outside the model, not ascending by
// (layer, head); with removals also without an offset, or with one outside the profile's range.
absl::StatusOr<std::vector<engine::OffsetHead>> ReadHeads(const v1::SlashProfile& request,
                                                          const formats::ModelConfig& config);

// INVALID_ARGUMENT: a map size that is negative or above 4096, maps or removals without heads, maps of
// prompts of different lengths.
absl::Status CheckHeadWork(const v1::SlashProfile& request, const std::vector<TokenIds>& prompts);

// Looks on at one block's prompts. Its calls are an observer's, in the same order and from the same threads.
class HeadProfiler {
 public:
  // `model` and `request` outlive it.
  HeadProfiler(const model::LoadedModel& model, const v1::SlashProfile& request, const SlashScoring& scoring,
               std::vector<engine::OffsetHead> heads);

  absl::Status StartPrompt(int64_t tokens);
  void Projected(const engine::ProjectedRows& rows);
  void Probabilities(const engine::ProbabilityBlock& block);
  // `done` gets the share of the layer's work on heads that is over.
  absl::Status LayerDone(int64_t layer, absl::FunctionRef<absl::Status(double share)> done);
  // After the block: a SlashBlock per removal and head, then the MapBlocks of each head.
  absl::Status EmitAll(Recorder& recorder) const;

  // Bytes held beside the forward pass and the scores of all heads.
  static int64_t Bytes(const v1::SlashProfile& request, const model::LoadedModel& model, int64_t tokens);

 private:
  struct Maps {
    engine::MapSums sums;
    std::vector<engine::MapSums::Map> totals;  // per head: sums of the prompts' means
  };
  void StartMaps(int64_t layer);
  void AddScores();
  absl::Status EmitMap(const engine::OffsetHead& head, const engine::MapSums::Map& total,
                       Recorder& recorder) const;

  const model::LoadedModel& model_;
  const v1::SlashProfile& request_;
  const SlashScoring scoring_;
  const std::vector<engine::OffsetHead> heads_;
  engine::RemovalScores removals_;
  SlashMoments moments_;  // [removals, heads]
  std::unique_ptr<Maps> maps_;
  int64_t tokens_ = 0, prompts_ = 0;
};

}  // namespace ropelab::measure
