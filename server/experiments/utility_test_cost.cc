#include "absl/strings/str_cat.h"
#include "server/experiments/cost.h"
#include "server/experiments/utility_test.h"

namespace ropelab::experiments {
namespace {

constexpr int64_t kBytesPerNorm = 8;
constexpr int64_t kBytesPerRow = 64;        // of a result table, as stored
constexpr int64_t kStatisticsPerTest = 10;  // rows

}  // namespace

v1::Estimate UtilityTestExperiment::Cost(const v1::ExperimentSpec& spec, const Facts& facts) const {
  const v1::UtilityTest& test = spec.utility_test();
  const int64_t detectors = test.heads().has_retrieval() ? 2 : 1;
  const int64_t tests = int64_t{spec.seeds_size()} * detectors * (test.thresholds_size() + 1);
  v1::Estimate estimate;
  double flops = 0;
  for (const ModelFacts& model : facts.models) {
    const v1::ModelConfig& config = model.config;
    const int64_t dims = config.layers() * config.query_heads() * config.head_dim();
    flops += 2 * static_cast<double>(dims) * static_cast<double>(config.hidden_size());
    estimate.set_tasks(estimate.tasks() + 1);
    estimate.set_reading_bytes(estimate.reading_bytes() + dims * kBytesPerNorm);
    const int64_t rows = dims + config.layers() * config.query_heads() + tests * kStatisticsPerTest;
    estimate.set_result_bytes(estimate.result_bytes() + rows * kBytesPerRow);
  }
  SetDeviceSeconds(flops, estimate);
  estimate.set_basis(
      absl::StrCat(estimate.basis(), "; the server's permutations and bootstraps take no device"));
  return estimate;
}

}  // namespace ropelab::experiments
