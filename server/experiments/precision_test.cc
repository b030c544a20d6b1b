#include "server/experiments/precision_test.h"

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/experiments/detection.h"
#include "server/experiments/needles.h"
#include "server/experiments/sweep_runs.h"

namespace ropelab::experiments {
namespace {

constexpr char kDetection[] = "precision_test.detection";
constexpr int64_t kContextLength = 2048;  // the retrieval paper's, section 7

}  // namespace

std::vector<v1::ExperimentSpec> DtypeVariants(const v1::ExperimentSpec& spec) {
  std::vector<v1::ExperimentSpec> variants;
  for (const int dtype : spec.precision_test().dtypes()) {
    variants.push_back(spec);
    variants.back().set_dtype(static_cast<v1::Dtype::Value>(dtype));
  }
  return variants;
}

void PrecisionTestExperiment::Resolve(v1::ExperimentSpec& spec, const Facts& facts,
                                      Problems& problems) const {
  v1::PrecisionTest& test = *spec.mutable_precision_test();
  if (test.dtypes_size() == 0) {  // the paper's two
    test.add_dtypes(v1::Dtype::FLOAT16);
    test.add_dtypes(v1::Dtype::INT8);
  }
  if (test.dtypes_size() < 2) {
    problems.Add("precision_test.dtypes", v1::Dtype::Value_Name(test.dtypes(0)),
                 "name at least two: the reference first, then what is held against it");
  }
  std::set<int> seen;
  for (int i = 0; i < test.dtypes_size(); ++i) {
    if (!seen.insert(test.dtypes(i)).second) {
      problems.Add(absl::StrCat("precision_test.dtypes[", i, "]"), v1::Dtype::Value_Name(test.dtypes(i)),
                   "stands there twice; name each dtype once");
    }
  }
  NeedleDefaults needles;
  needles.context_lengths = {kContextLength};
  ResolveDetection(*test.mutable_detection(), kDetection, needles, spec, facts, problems);
  if (problems.empty()) {
    CheckRunSizes(test.detection(), kDetection, test.dtypes_size(), spec, facts, problems);
  }
}

absl::StatusOr<std::optional<StagePlan>> PrecisionTestExperiment::Plan(const v1::ExperimentSpec& spec,
                                                                       const Context& context, int64_t stage,
                                                                       StageReadings& readings) const {
  return PlanRuns(spec.precision_test().detection(), DtypeVariants(spec), context, stage, readings);
}

v1::Estimate PrecisionTestExperiment::Cost(const v1::ExperimentSpec& spec, const Facts& facts) const {
  return CostOfRuns(spec.precision_test().detection(), DtypeVariants(spec), facts);
}

}  // namespace ropelab::experiments
