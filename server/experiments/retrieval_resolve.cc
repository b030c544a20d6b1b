#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/experiments/cost.h"
#include "server/experiments/detection.h"
#include "server/experiments/needles.h"
#include "server/experiments/prompts.h"
#include "server/experiments/retrieval_detection.h"

namespace ropelab::experiments {
namespace {

constexpr char kPath[] = "retrieval_detection";
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

void CheckSizes(const v1::ExperimentSpec& spec, const Facts& facts, Problems& problems) {
  const v1::RetrievalDetection& detection = spec.retrieval_detection();
  int64_t heads = 0;
  for (const ModelFacts& model : facts.models) {
    heads += model.config.layers() * model.config.query_heads() * spec.seeds_size();
  }
  if (heads > kMostRows / RowsPerHead(detection)) {
    problems.Add(
        absl::StrCat(kPath, ".needles"), absl::StrCat(RowsPerHead(detection) * heads, " scores"),
        absl::StrCat("over all metrics, cells and the ", heads, " heads of all models and seeds; at most ",
                     kMostRows, ": fewer context lengths, depths, metrics, seeds or models"));
  }
  const int64_t count = NeedleCount(detection.needles());
  const int64_t tasks = BlockCount(count) * spec.seeds_size() * static_cast<int64_t>(facts.models.size());
  if (tasks > kMostTasks) {
    problems.Add(absl::StrCat(kPath, ".needles.samples_per_cell"),
                 absl::StrCat(detection.needles().samples_per_cell()),
                 absl::StrCat("make ", tasks, " tasks; at most ", kMostTasks,
                              ": fewer samples, cells, seeds or models"));
  }
}

}  // namespace

void RetrievalDetectionExperiment::Resolve(v1::ExperimentSpec& spec, const Facts& facts,
                                           Problems& problems) const {
  ResolveDetection(*spec.mutable_retrieval_detection(), kPath, NeedleDefaults(), spec, facts, problems);
  if (problems.empty()) {
    CheckSizes(spec, facts, problems);
  }
}

v1::Estimate RetrievalDetectionExperiment::Cost(const v1::ExperimentSpec& spec, const Facts& facts) const {
  const v1::RetrievalDetection& detection = spec.retrieval_detection();
  const int64_t count = NeedleCount(detection.needles());
  const int64_t seeds = spec.seeds_size();
  v1::Estimate estimate;
  double flops = 0;
  std::set<std::string> tokenizers;
  for (const ModelFacts& model : facts.models) {
    const int64_t heads = model.config.layers() * model.config.query_heads();
    for (const int64_t length : detection.needles().context_lengths()) {
      flops += static_cast<double>(seeds * detection.needles().depths_size() *
                                   detection.needles().samples_per_cell()) *
               ForwardFlops(model, length);
    }
    estimate.set_tasks(estimate.tasks() + BlockCount(count) * seeds);
    estimate.set_reading_bytes(estimate.reading_bytes() +
                               seeds * count *
                                   (heads * detection.metrics_size() * kBytesPerValue + kBytesPerSample));
    estimate.set_result_bytes(estimate.result_bytes() +
                              seeds * (heads * RowsPerHead(detection) + count) * kBytesPerRow);
    tokenizers.insert(model.tokenizer_hash);
  }
  if (tokenizers.size() > 1) {
    const int64_t lengths = BlockCount(count) * seeds * static_cast<int64_t>(tokenizers.size());
    estimate.set_tasks(estimate.tasks() + lengths);
    estimate.set_reading_bytes(estimate.reading_bytes() +
                               seeds * count * static_cast<int64_t>(tokenizers.size()) * kBytesPerSample);
  }
  SetDeviceSeconds(flops, estimate);
  estimate.set_basis(absl::StrCat(estimate.basis(),
                                  "; every prompt as long as its context length; tokenizing is not counted"));
  return estimate;
}

}  // namespace ropelab::experiments
