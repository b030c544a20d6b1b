// What a detection makes and what it takes.
#include <string>

#include "absl/strings/str_cat.h"
#include "server/experiments/cost.h"
#include "server/experiments/detection.h"
#include "server/experiments/needles.h"
#include "server/experiments/prompts.h"

namespace ropelab::experiments {
namespace {

constexpr int64_t kMostRows = int64_t{1} << 24;  // of the table head_scores
constexpr int64_t kMostTasks = 1000000;
constexpr int64_t kBytesPerValue = 8;    // of a reading
constexpr int64_t kBytesPerSample = 96;  // how it was realised
constexpr int64_t kBytesPerRow = 96;     // of a result table, as stored

int64_t RowsPerHead(const v1::RetrievalDetection& detection) {
  const int64_t cells =
      int64_t{1} * detection.needles().context_lengths_size() * detection.needles().depths_size();
  return detection.metrics_size() * (cells + 1);
}

}  // namespace

void CheckDetectionSizes(const v1::RetrievalDetection& detection, const std::string& path, int64_t dtypes,
                         const v1::ExperimentSpec& spec, const Facts& facts, Problems& problems) {
  int64_t heads = 0;
  for (const ModelFacts& model : facts.models) {
    heads += model.config.layers() * model.config.query_heads() * spec.seeds_size() * dtypes;
  }
  if (heads > kMostRows / RowsPerHead(detection)) {
    problems.Add(
        path + ".needles", absl::StrCat(RowsPerHead(detection) * heads, " scores"),
        absl::StrCat("over all metrics, cells and the ", heads, " heads of all models and seeds; at most ",
                     kMostRows, ": fewer context lengths, depths, metrics, seeds or models"));
  }
  const int64_t tasks = BlockCount(NeedleCount(detection.needles())) * spec.seeds_size() *
                        static_cast<int64_t>(facts.models.size()) * dtypes;
  if (tasks > kMostTasks) {
    problems.Add(path + ".needles.samples_per_cell", absl::StrCat(detection.needles().samples_per_cell()),
                 absl::StrCat("make ", tasks, " tasks; at most ", kMostTasks,
                              ": fewer samples, cells, seeds or models"));
  }
}

double AddDetectionCost(const v1::RetrievalDetection& detection, int64_t seeds, const ModelFacts& model,
                        v1::Estimate& estimate) {
  const v1::Needles& needles = detection.needles();
  const int64_t count = NeedleCount(needles);
  const int64_t heads = model.config.layers() * model.config.query_heads();
  estimate.set_tasks(estimate.tasks() + BlockCount(count) * seeds);
  estimate.set_reading_bytes(estimate.reading_bytes() +
                             seeds * count *
                                 (heads * detection.metrics_size() * kBytesPerValue + kBytesPerSample));
  estimate.set_result_bytes(estimate.result_bytes() +
                            seeds * (heads * RowsPerHead(detection) + count) * kBytesPerRow);
  double flops = 0;
  for (const int64_t length : needles.context_lengths()) {
    flops += static_cast<double>(seeds * needles.depths_size() * needles.samples_per_cell()) *
             ForwardFlops(model, length);
  }
  return flops;
}

}  // namespace ropelab::experiments
