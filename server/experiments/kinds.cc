#include "server/experiments/kinds.h"

#include "server/experiments/frequency_analysis.h"
#include "server/experiments/inspection.h"
#include "server/experiments/low_rank.h"
#include "server/experiments/ood_test.h"
#include "server/experiments/rank_analysis.h"
#include "server/experiments/rope_geometry.h"
#include "server/experiments/shallow_training.h"
#include "server/experiments/slash_detection.h"

namespace ropelab::experiments {

const std::vector<Kind>& Kinds() {
  static const SlashDetectionExperiment slash_detection;
  static const OodTestExperiment ood_test;
  static const RankAnalysisExperiment rank_analysis;
  static const FrequencyAnalysisExperiment frequency_analysis;
  static const LowRankExperiment low_rank;
  static const RopeGeometryExperiment rope_geometry;
  static const InspectionExperiment inspection;
  static const ShallowTrainingExperiment shallow_training;
  static const std::vector<Kind> kinds = {
      {"slash_detection", &slash_detection, true},
      {"ood_test", &ood_test, true},
      {"rank_analysis", &rank_analysis, true},
      {"frequency_analysis", &frequency_analysis, true},
      {"low_rank", &low_rank, true},
      {"retrieval_detection", nullptr, true},
      {"utility_test", nullptr, true},
      {"knockout", nullptr, true},
      {"patch", nullptr, true},
      {"per_head_patch", nullptr, true},
      {"dose_sweep", nullptr, true},
      {"coverage_sweep", nullptr, true},
      {"context_sweep", nullptr, true},
      {"checkpoint_sweep", nullptr, false},  // its checkpoints name the models
      {"precision_test", nullptr, true},
      {"shallow_training", &shallow_training, false},
      {"rope_geometry", &rope_geometry, false},
      {"inspection", &inspection, true},
  };
  return kinds;
}

const Kind* FindKind(std::string_view field) {
  for (const Kind& kind : Kinds()) {
    if (kind.field == field) {
      return &kind;
    }
  }
  return nullptr;
}

}  // namespace ropelab::experiments
