#include "server/experiments/retrieval_labels.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <numeric>
#include <set>
#include <string_view>
#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace ropelab::experiments {
namespace {

constexpr int kMostDecimals = 36;  // of a product that still fits 128 bits

// ⌈factor · count⌉ for factor >= 0, computed on the shortest decimal that reads back as `factor`: the one
// that a person wrote, wherever one of at most 15 digits was written.
int64_t CeilingOfDecimal(double factor, int64_t count) {
  if (!(factor > 0) || count <= 0) {
    return 0;
  }
  char text[64];
  const auto end = std::to_chars(text, text + sizeof(text), factor, std::chars_format::scientific).ptr;
  const std::string_view written(text, static_cast<size_t>(end - text));
  const size_t e = written.find('e');
  __extension__ using Wide = unsigned __int128;
  Wide digits = 0;
  int decimals = 0;
  bool fraction = false;
  for (const char c : written.substr(0, e)) {
    if (c == '.') {
      fraction = true;
      continue;
    }
    digits = digits * 10 + static_cast<Wide>(c - '0');
    decimals += fraction ? 1 : 0;
  }
  const bool negative = written[e + 1] == '-';
  int exponent = 0;
  std::from_chars(written.data() + e + 2, written.data() + written.size(), exponent);
  decimals += negative ? exponent : -exponent;
  Wide product = digits * static_cast<Wide>(count);
  if (decimals > kMostDecimals) {
    return 1;  // so small a factor that any count of 64 bits leaves a fraction
  }
  for (; decimals < 0; ++decimals) {
    product *= 10;
  }
  Wide divisor = 1;
  for (; decimals > 0; --decimals) {
    divisor *= 10;
  }
  return static_cast<int64_t>((product + divisor - 1) / divisor);
}

constexpr v1::Metric::Value kMetrics[] = {v1::Metric::ARGMAX, v1::Metric::MASS, v1::Metric::COPY_PAPER,
                                          v1::Metric::COPY_PAPER_PER_TOKEN, v1::Metric::COPY_WU};

}  // namespace

int64_t HitsNeeded(double threshold, int64_t samples) {
  return CeilingOfDecimal(threshold, samples);
}

int64_t ShareOf(double share, int64_t count) {
  return CeilingOfDecimal(share, count);
}

std::string MetricName(v1::Metric::Value metric) {
  return absl::AsciiStrToLower(v1::Metric::Value_Name(metric));
}

absl::StatusOr<v1::Metric::Value> MetricNamed(const std::string& name) {
  for (const v1::Metric::Value metric : kMetrics) {
    if (MetricName(metric) == absl::AsciiStrToLower(name)) {
      return metric;
    }
  }
  return absl::NotFoundError(
      absl::StrCat("no metric \"", name, "\"; there are ",
                   absl::StrJoin(kMetrics, ", ", [](std::string* out, v1::Metric::Value metric) {
                     absl::StrAppend(out, MetricName(metric));
                   })));
}

bool IsCopyMetric(v1::Metric::Value metric) {
  return metric == v1::Metric::COPY_PAPER || metric == v1::Metric::COPY_PAPER_PER_TOKEN ||
         metric == v1::Metric::COPY_WU;
}

std::vector<double> ThresholdsOf(const v1::RetrievalDetection& detection) {
  std::set<double> thresholds(std::begin(kReportedThresholds), std::end(kReportedThresholds));
  thresholds.insert(detection.threshold());
  return {thresholds.begin(), thresholds.end()};
}

std::vector<size_t> RankedHeads(const std::vector<HeadFigures>& heads) {
  std::vector<size_t> order(heads.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const HeadFigures& x = heads[a];
    const HeadFigures& y = heads[b];
    return std::tie(y.score, y.mass, x.layer, x.head) < std::tie(x.score, x.mass, y.layer, y.head);
  });
  return order;
}

std::vector<bool> RetrievalLabels(v1::Metric::Value metric, const std::vector<HeadFigures>& heads,
                                  double threshold) {
  std::vector<bool> labels(heads.size(), false);
  std::vector<bool> by_hits(heads.size(), false);
  for (size_t i = 0; i < heads.size(); ++i) {
    const HeadFigures& head = heads[i];
    by_hits[i] = head.samples > 0 && head.hits >= HitsNeeded(threshold, head.samples);
    labels[i] = head.samples > 0 && head.score >= threshold;
  }
  if (metric == v1::Metric::ARGMAX) {
    return by_hits;
  }
  if (!IsCopyMetric(metric)) {
    return labels;
  }
  labels.assign(heads.size(), false);
  const size_t counted = static_cast<size_t>(std::count(by_hits.begin(), by_hits.end(), true));
  const std::vector<size_t> order = RankedHeads(heads);
  for (size_t i = 0; i < counted; ++i) {
    labels[order[i]] = true;
  }
  return labels;
}

}  // namespace ropelab::experiments
