#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/experiments/detection.h"
#include "server/experiments/needles.h"

namespace ropelab::experiments {
namespace {

// Ascending, each once, MASS among them.
void ResolveMetrics(v1::RetrievalDetection& detection, const std::string& path, Problems& problems) {
  std::set<v1::Metric::Value> metrics;
  for (int i = 0; i < detection.metrics_size(); ++i) {
    const v1::Metric::Value metric = detection.metrics(i);
    if (!metrics.insert(metric).second) {
      problems.Add(absl::StrCat(path, ".metrics[", i, "]"), v1::Metric::Value_Name(metric),
                   "stands there twice; name each metric once");
    }
  }
  if (metrics.empty()) {
    metrics.insert(v1::Metric::ARGMAX);
  }
  metrics.insert(v1::Metric::MASS);
  for (int i = 0; i < detection.metrics_size(); ++i) {
    const v1::Metric::Value metric = detection.metrics(i);
    if (IsCopyMetric(metric) && metrics.count(v1::Metric::ARGMAX) == 0) {
      problems.Add(absl::StrCat(path, ".metrics[", i, "]"), v1::Metric::Value_Name(metric),
                   "needs ARGMAX among the metrics: it labels as many heads as the argmax set has");
    }
  }
  detection.clear_metrics();
  for (const v1::Metric::Value metric : metrics) {
    detection.add_metrics(metric);
  }
}

}  // namespace

void ResolveDetection(v1::RetrievalDetection& detection, const std::string& path,
                      const NeedleDefaults& needles, const v1::ExperimentSpec& spec, const Facts& facts,
                      Problems& problems) {
  ResolveNeedles(*detection.mutable_needles(), path + ".needles", needles, spec, facts, problems);
  ResolveMetrics(detection, path, problems);
  if (!detection.has_span()) {
    detection.set_span(v1::Span::NEEDLE);
  }
  if (!detection.has_threshold()) {
    detection.set_threshold(kDefaultRetrievalThreshold);
  } else if (!(detection.threshold() > 0 && detection.threshold() <= 1)) {
    problems.Add(path + ".threshold", absl::StrCat(detection.threshold()),
                 "a share of the samples is above 0 and at most 1, and so is its threshold");
  }
}

PlannedTask DetectionTask(const v1::RetrievalDetection& detection, const v1::ModelIdentity& identity,
                          const std::string& model, v1::PromptBlock prompts) {
  PlannedTask task;
  task.model = model;
  *task.measurement.mutable_model() = identity;
  v1::NeedleAttention& attention = *task.measurement.mutable_needle_attention();
  *attention.mutable_prompts() = std::move(prompts);
  *attention.mutable_metrics() = detection.metrics();
  attention.set_span(detection.span());
  return task;
}

}  // namespace ropelab::experiments
