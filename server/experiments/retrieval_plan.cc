#include <utility>

#include "common/status_macros.h"
#include "server/experiments/detection.h"
#include "server/experiments/model_names.h"
#include "server/experiments/needles.h"
#include "server/experiments/retrieval_detection.h"

namespace ropelab::experiments {

absl::StatusOr<std::optional<StagePlan>> RetrievalDetectionExperiment::Plan(const v1::ExperimentSpec& spec,
                                                                            const Context& context,
                                                                            int64_t stage,
                                                                            StageReadings& readings) const {
  const v1::RetrievalDetection& detection = spec.retrieval_detection();
  ROPELAB_ASSIGN_OR_RETURN(FoundNeedles found, FindNeedles(detection.needles(), v1::NeedlePrompts::DETECTION,
                                                           {spec.seeds().begin(), spec.seeds().end()},
                                                           context.models, context, stage, readings));
  if (!found.before.empty()) {
    return std::optional<StagePlan>(std::move(found.before));
  }
  if (stage > found.stages + 1) {
    return std::optional<StagePlan>();
  }
  StagePlan plan;
  for (const ModelFacts& model : context.models) {
    ROPELAB_ASSIGN_OR_RETURN(const v1::ModelIdentity identity, IdentityOf(spec, model));
    for (size_t seed = 0; seed < found.seeds.size(); ++seed) {
      for (int64_t block = 0; block < found.Blocks(seed); ++block) {
        plan.push_back(DetectionTask(detection, identity, model.name, found.Block(model, seed, block)));
      }
    }
  }
  return std::optional<StagePlan>(std::move(plan));
}

}  // namespace ropelab::experiments
