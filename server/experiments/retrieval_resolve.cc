#include "absl/strings/str_cat.h"
#include "server/experiments/cost.h"
#include "server/experiments/detection.h"
#include "server/experiments/needles.h"
#include "server/experiments/retrieval_detection.h"

namespace ropelab::experiments {
namespace {

constexpr char kPath[] = "retrieval_detection";

}  // namespace

void RetrievalDetectionExperiment::Resolve(v1::ExperimentSpec& spec, const Facts& facts,
                                           Problems& problems) const {
  ResolveDetection(*spec.mutable_retrieval_detection(), kPath, NeedleDefaults(), spec, facts, problems);
  if (problems.empty()) {
    CheckDetectionSizes(spec.retrieval_detection(), kPath, /*dtypes=*/1, spec, facts, problems);
  }
}

v1::Estimate RetrievalDetectionExperiment::Cost(const v1::ExperimentSpec& spec, const Facts& facts) const {
  const v1::RetrievalDetection& detection = spec.retrieval_detection();
  v1::Estimate estimate;
  double flops = 0;
  for (const ModelFacts& model : facts.models) {
    flops += AddDetectionCost(detection, spec.seeds_size(), model, estimate);
  }
  AddNeedleStage(detection.needles(), spec.seeds_size(), facts.models, estimate);
  SetDeviceSeconds(flops, estimate);
  estimate.set_basis(absl::StrCat(estimate.basis(),
                                  "; every prompt as long as its context length; tokenizing is not counted"));
  return estimate;
}

}  // namespace ropelab::experiments
