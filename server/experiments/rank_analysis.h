// rank_analysis: how close queries, keys, hidden states and projections are to rank one, and why. The slash
// paper, sections 4.2 and 4.3; docs/experiments/rank_analysis.md.
//
// Stages: those that find the prompts (prompt_stages.h), then one that measures (RankLayout).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/experiments/experiment.h"
#include "server/experiments/head_set.h"

namespace ropelab::experiments {

class RankAnalysisExperiment : public Experiment {
 public:
  void Resolve(v1::ExperimentSpec& spec, const Facts& facts, Problems& problems) const override;
  absl::StatusOr<std::optional<StagePlan>> Plan(const v1::ExperimentSpec& spec, const Context& context,
                                                int64_t stage, StageReadings& readings) const override;
  absl::StatusOr<Results> Reduce(const v1::ExperimentSpec& spec, const Context& context,
                                 StageReadings& readings) const override;
  v1::Estimate Cost(const v1::ExperimentSpec& spec, const Facts& facts) const override;
};

inline constexpr int64_t kRandomVectors = 100;                 // of the cone's baseline
inline constexpr int64_t kCosineBins = 200;                    // of a histogram; for expected sizes alone
inline constexpr int64_t kMostViewBytes = int64_t{256} << 20;  // of one model and seed

enum class RankPart { kWeights, kVocabulary, kPrompts };
struct RankTask {
  RankPart part = RankPart::kWeights;
  size_t model = 0, seed = 0;  // in the spec's order; weights belong to every seed
  int64_t block = 0;           // of prompts
};

// The order of the measuring stage's tasks: model by model its projections' spectra, then seed by seed the
// vocabulary, where it is asked for, and the blocks of prompts.
class RankLayout {
 public:
  // `spec` is resolved; `blocks` per model and seed.
  RankLayout(const v1::ExperimentSpec& spec, int64_t blocks);

  int64_t tasks() const { return models_ * per_model_; }
  // 0 <= index < tasks().
  RankTask At(int64_t index) const;

 private:
  int64_t models_, per_model_, per_seed_;
  bool vocabulary_;
};

// Bytes of the views of these heads: `rows` rows of Q and K a head and of H a layer, fp32.
int64_t ViewBytes(const v1::ModelConfig& config, int64_t rows, const std::vector<NamedHead>& heads);
// The heads of a set that is a list; none of any other.
std::vector<NamedHead> ListedHeads(const v1::HeadSet& set);

}  // namespace ropelab::experiments
