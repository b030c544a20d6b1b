#include "server/experiments/kinds.h"

#include "server/experiments/checkpoint_sweep.h"
#include "server/experiments/frequency_analysis.h"
#include "server/experiments/inspection.h"
#include "server/experiments/low_rank.h"
#include "server/experiments/ood_test.h"
#include "server/experiments/outcome.h"
#include "server/experiments/precision_test.h"
#include "server/experiments/rank_analysis.h"
#include "server/experiments/retrieval_detection.h"
#include "server/experiments/rope_geometry.h"
#include "server/experiments/shallow_training.h"
#include "server/experiments/slash_detection.h"
#include "server/experiments/utility_test.h"

namespace ropelab::experiments {

const std::vector<Kind>& Kinds() {
  static const SlashDetectionExperiment slash_detection;
  static const OodTestExperiment ood_test;
  static const RankAnalysisExperiment rank_analysis;
  static const FrequencyAnalysisExperiment frequency_analysis;
  static const LowRankExperiment low_rank;
  static const RetrievalDetectionExperiment retrieval_detection;
  static const OutcomeExperiment knockout("knockout"), patch("patch"), per_head_patch("per_head_patch"),
      dose_sweep("dose_sweep"), coverage_sweep("coverage_sweep"), context_sweep("context_sweep");
  static const RopeGeometryExperiment rope_geometry;
  static const InspectionExperiment inspection;
  static const ShallowTrainingExperiment shallow_training;
  static const CheckpointSweepExperiment checkpoint_sweep;
  static const PrecisionTestExperiment precision_test;
  static const UtilityTestExperiment utility_test;
  static const std::vector<Kind> kinds = {
      {"slash_detection", &slash_detection, true},
      {"ood_test", &ood_test, true},
      {"rank_analysis", &rank_analysis, true},
      {"frequency_analysis", &frequency_analysis, true},
      {"low_rank", &low_rank, true},
      {"retrieval_detection", &retrieval_detection, true},
      {"utility_test", &utility_test, true},
      {"knockout", &knockout, true},
      {"patch", &patch, true},
      {"per_head_patch", &per_head_patch, true},
      {"dose_sweep", &dose_sweep, true},
      {"coverage_sweep", &coverage_sweep, true},
      {"context_sweep", &context_sweep, true},
      {"checkpoint_sweep", &checkpoint_sweep, false, /*names_models=*/true},
      {"precision_test", &precision_test, true, false, /*names_dtypes=*/true},
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
