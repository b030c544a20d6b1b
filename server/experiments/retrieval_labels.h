// Which heads count as retrieval heads, from their figures on needle samples. EXPERIMENTS.md section 7. Pure:
// a detection labels its own heads with it, and a later experiment those of its table head_scores once more.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ropelab/v1/choices.pb.h"
#include "ropelab/v1/experiments.pb.h"

namespace ropelab::experiments {

// The least number of hits that reaches the share `threshold` of the samples: ⌈τ · samples⌉ with τ as the
// decimal that a person wrote (0.07 of 100 is 7, though the product of the doubles is above it).
int64_t HitsNeeded(double threshold, int64_t samples);

// ⌈share · count⌉, the share as its decimal.
int64_t ShareOf(double share, int64_t count);

// "argmax", "mass", "copy_paper", "copy_paper_per_token", "copy_wu": how result tables write a metric.
std::string MetricName(v1::Metric::Value metric);
// NOT_FOUND names the texts that there are.
absl::StatusOr<v1::Metric::Value> MetricNamed(const std::string& name);
// True for the metrics of the teacher-forced answer, whose heads are counted by the argmax set.
bool IsCopyMetric(v1::Metric::Value metric);

// One head under one metric, over some samples.
struct HeadFigures {
  int64_t layer = 0, head = 0;
  double score = 0;  // of the metric: its mean over the samples
  double mass = 0;   // mean MASS on the same samples, which breaks ties
  int64_t hits = 0;  // of ARGMAX, on the same samples
  int64_t samples = 0;
  bool retrieval = false;  // as the detection labelled it; filled where it is read from a table
};

// Indices of the heads, the best first: by score, of a tie by mass, then by layer and head.
std::vector<size_t> RankedHeads(const std::vector<HeadFigures>& heads);

// Which of the heads are retrieval heads at the threshold; one entry per head. ARGMAX: at least
// HitsNeeded(threshold, samples) hits. MASS: a score of at least the threshold. Copy metrics: the best n of
// RankedHeads, n being how many heads ARGMAX labels. No samples: none.
std::vector<bool> RetrievalLabels(v1::Metric::Value metric, const std::vector<HeadFigures>& heads,
                                  double threshold);

// What counts are reported for beside the spec's own threshold.
inline constexpr double kReportedThresholds[] = {0.05, 0.1, 0.15, 0.2, 0.25, 0.3};
inline constexpr double kDefaultRetrievalThreshold = 0.1;
// Those and the detection's own, ascending, each once.
std::vector<double> ThresholdsOf(const v1::RetrievalDetection& detection);

}  // namespace ropelab::experiments
