#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "google/protobuf/repeated_field.h"
#include "server/experiments/detection.h"
#include "server/experiments/needles.h"

namespace ropelab::experiments {
namespace {

const google::protobuf::RepeatedField<double>& ValuesOf(const v1::NeedleHeads& heads,
                                                        v1::Metric::Value metric) {
  switch (metric) {
    case v1::Metric::ARGMAX:
      return heads.argmax();
    case v1::Metric::MASS:
      return heads.mass();
    case v1::Metric::COPY_PAPER:
      return heads.copy_paper();
    case v1::Metric::COPY_PAPER_PER_TOKEN:
      return heads.copy_paper_per_token();
    default:
      return heads.copy_wu();
  }
}

}  // namespace

DetectionScores::DetectionScores(const v1::RetrievalDetection& detection, const v1::ModelConfig& config)
    : layers_(config.layers()), heads_(config.query_heads()) {
  const v1::Needles& needles = detection.needles();
  cells_.push_back({});
  for (const int64_t length : needles.context_lengths()) {
    cells_.push_back({length, std::nullopt, 0});
  }
  for (const double depth : needles.depths()) {
    cells_.push_back({std::nullopt, depth, 0});
  }
  for (const int64_t length : needles.context_lengths()) {
    for (const double depth : needles.depths()) {
      cells_.push_back({length, depth, 0});
    }
  }
  const std::vector<double> none(static_cast<size_t>(layers_ * heads_), 0.0);
  for (const int metric : detection.metrics()) {
    metrics_.push_back(static_cast<v1::Metric::Value>(metric));
    sums_[metrics_.back()].assign(cells_.size(), none);
  }
}

absl::Status DetectionScores::Add(const v1::Measurement& measurement, const v1::Reading& reading) {
  if (!measurement.has_needle_attention() || !reading.has_needle_heads()) {
    return absl::InternalError("a reading of a detection is none of what heads look at");
  }
  const v1::NeedleHeads& heads = reading.needle_heads();
  const std::string called = absl::StrCat("needle sample ", heads.realised().sample());
  ROPELAB_ASSIGN_OR_RETURN(
      const v1::NeedleSample sample,
      NeedleSampleOf(measurement.needle_attention().prompts(), heads.realised().sample()));
  if (!heads.realised().fits()) {
    return absl::InternalError(
        absl::StrCat(called, " was measured though it does not fit ", sample.context_length(), " tokens"));
  }
  bool counted = false;
  for (size_t cell = 0; cell < cells_.size(); ++cell) {
    DetectionCell& at = cells_[cell];
    if (at.context_length.value_or(sample.context_length()) != sample.context_length() ||
        at.depth.value_or(sample.depth()) != sample.depth()) {
      continue;
    }
    counted = counted || at.whole();
    ++at.samples;
    for (auto& [metric, sums] : sums_) {
      const auto& values = ValuesOf(heads, metric);
      std::vector<double>& sum = sums[cell];
      if (static_cast<size_t>(values.size()) != sum.size()) {
        return absl::InternalError(absl::StrCat(called, ": metric ", MetricName(metric), " has ",
                                                values.size(), " values for ", sum.size(), " heads"));
      }
      for (size_t i = 0; i < sum.size(); ++i) {
        const double value = values.Get(static_cast<int>(i));
        if (!std::isfinite(value)) {
          return absl::DataLossError(
              absl::StrCat(called, ": metric ", MetricName(metric), " of L", i / static_cast<size_t>(heads_),
                           "H", i % static_cast<size_t>(heads_), " is ", value, ", not a finite number"));
        }
        sum[i] += value;
      }
    }
  }
  return counted
             ? absl::OkStatus()
             : absl::InternalError(absl::StrCat(called, " of ", sample.context_length(), " tokens at depth ",
                                                sample.depth(), " is in no cell of the detection"));
}

std::vector<HeadFigures> DetectionScores::Figures(v1::Metric::Value metric, size_t cell) const {
  const int64_t samples = cells_[cell].samples;
  const auto sum_of = [&](v1::Metric::Value wanted, size_t i) {
    const auto found = sums_.find(wanted);
    return found == sums_.end() ? 0.0 : found->second[cell][i];
  };
  const double n = samples > 0 ? static_cast<double>(samples) : 1.0;
  std::vector<HeadFigures> figures;
  for (int64_t layer = 0; layer < layers_; ++layer) {
    for (int64_t head = 0; head < heads_; ++head) {
      const size_t i = static_cast<size_t>(layer * heads_ + head);
      HeadFigures& of_head = figures.emplace_back();
      of_head.layer = layer;
      of_head.head = head;
      of_head.score = sum_of(metric, i) / n;
      of_head.mass = sum_of(v1::Metric::MASS, i) / n;
      of_head.hits = static_cast<int64_t>(sum_of(v1::Metric::ARGMAX, i));
      of_head.samples = samples;
    }
  }
  return figures;
}

std::vector<bool> DetectionScores::Labels(v1::Metric::Value metric, double threshold, size_t cell) const {
  return RetrievalLabels(metric, Figures(metric, cell), threshold);
}

}  // namespace ropelab::experiments
