#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/experiments/head_set.h"
#include "server/experiments/retrieval_labels.h"
#include "server/experiments/utility_statistics.h"
#include "server/experiments/utility_test.h"
#include "server/statistics/permutation.h"

namespace ropelab::experiments {
namespace {

constexpr int kMostThresholds = 32;

std::string At(const char* field) {
  return absl::StrCat("utility_test.", field);
}

void ResolveThresholds(v1::UtilityTest& test, Problems& problems) {
  if (test.thresholds_size() == 0 && test.heads().has_retrieval()) {
    for (const double threshold : kReportedThresholds) {
      test.add_thresholds(threshold);
    }
  }
  if (test.thresholds_size() > 0 && test.heads().has_list()) {
    problems.Add(At("thresholds"), absl::StrCat(test.thresholds_size(), " thresholds"),
                 "a listed set has no scores to compare with a threshold; leave them out, or take the heads "
                 "from a retrieval_detection");
    return;
  }
  if (test.thresholds_size() > kMostThresholds) {
    problems.Add(At("thresholds"), absl::StrCat(test.thresholds_size(), " thresholds"),
                 absl::StrCat("are too many; at most ", kMostThresholds));
    return;
  }
  std::set<double> seen;
  for (int i = 0; i < test.thresholds_size(); ++i) {
    const std::string path = absl::StrCat(At("thresholds"), "[", i, "]");
    const double threshold = test.thresholds(i);
    if (!(threshold > 0 && threshold <= 1)) {
      problems.Add(path, absl::StrCat(threshold), "a threshold is above 0 and at most 1");
    } else if (!seen.insert(threshold).second) {
      problems.Add(path, absl::StrCat(threshold), "stands there twice; name each threshold once");
    }
  }
  test.mutable_thresholds()->Assign(seen.begin(), seen.end());  // their order moves nothing
}

void ResolveFigures(v1::UtilityTest& test, Problems& problems) {
  if (!test.has_permutations()) {
    test.set_permutations(statistics::kPermutations);
  } else if (test.permutations() < 1 || test.permutations() > kMostPermutations) {
    problems.Add(At("permutations"), absl::StrCat(test.permutations()),
                 absl::StrCat("give 1 to ", kMostPermutations, " permutations"));
  }
  if (!test.has_fold_norm()) {
    test.set_fold_norm(false);
  }
  if (!test.has_correlation()) {
    test.set_correlation(v1::PartialCorrelation::DEMEAN_FIRST);
  }
}

void CheckSizes(const v1::ExperimentSpec& spec, const Facts& facts, Problems& problems) {
  const v1::UtilityTest& test = spec.utility_test();
  // Of a retrieval set under its own metric, ARGMAX and MASS.
  const int64_t detectors = test.heads().has_retrieval() ? 3 : 1;
  const int64_t labellings = detectors * (test.thresholds_size() + 1);
  double labels = 0;
  int64_t rows = 0;
  for (const ModelFacts& model : facts.models) {
    const int64_t heads = model.config.layers() * model.config.query_heads();
    rows += heads * (model.config.head_dim() + 1);
    labels += static_cast<double>(heads) * static_cast<double>(spec.seeds_size() * labellings) *
              static_cast<double>(test.permutations());
  }
  if (rows > kMostUtilityRows) {
    problems.Add(
        "models", absl::StrCat(facts.models.size(), " models"),
        absl::StrCat("give ", rows, " rows of utilities; at most ", kMostUtilityRows, ": fewer models"));
  }
  if (labels > kMostLabels) {
    problems.Add(
        At("permutations"), absl::StrCat(test.permutations()),
        absl::StrCat("over all heads, seeds, models, detectors and thresholds deal out ", labels,
                     " labels; at most ", kMostLabels, ": fewer permutations, thresholds, seeds or models"));
  }
}

}  // namespace

void UtilityTestExperiment::Resolve(v1::ExperimentSpec& spec, const Facts& facts, Problems& problems) const {
  v1::UtilityTest& test = *spec.mutable_utility_test();
  ResolveHeadSet(test.heads(), At("heads"), facts, problems);
  ResolveThresholds(test, problems);
  ResolveFigures(test, problems);
  if (problems.empty()) {
    CheckSizes(spec, facts, problems);
  }
}

}  // namespace ropelab::experiments
