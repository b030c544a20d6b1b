#include "server/experiments/retrieval_statistics.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/experiments/retrieval_labels.h"
#include "server/statistics/correlation.h"
#include "server/statistics/sets.h"
#include "server/statistics/spread.h"

namespace ropelab::experiments {
namespace {

// One row of `statistics` beside model, dtype and class.
struct Figure {
  std::string name;
  std::optional<std::string> detector = {};
  std::optional<double> threshold = {};
  std::optional<int64_t> seed = {};
  std::optional<double> value = {}, low = {}, high = {};
  std::optional<int64_t> n = {};
  std::string because = {};  // where there is no value
};

std::vector<statistics::Place> PlacesOf(const std::vector<HeadFigures>& heads, int64_t best) {
  std::vector<statistics::Place> places;
  for (const size_t i : RankedHeads(heads)) {
    if (static_cast<int64_t>(places.size()) < best) {
      places.push_back({heads[i].layer, heads[i].head});
    }
  }
  return places;
}

std::vector<double> ScoresOf(const std::vector<HeadFigures>& heads) {
  std::vector<double> scores;
  for (const HeadFigures& head : heads) {
    scores.push_back(head.score);
  }
  return scores;
}

int64_t CountOf(const std::vector<bool>& labels) {
  return std::count(labels.begin(), labels.end(), true);
}

class Writer {
 public:
  Writer(const v1::RetrievalDetection& detection, const std::string& numerics_class)
      : detection_(detection),
        numerics_class_(numerics_class),
        statistics_(StatisticsTable()),
        series_(SeriesTable()) {}

  void Add(const RetrievalGroup& group) {
    for (const v1::Metric::Value metric : group.scores.metrics()) {
      AddCounts(group, metric);
      AddGroups(group, metric);
      AddMargins(group, metric);
    }
    AddAgreement(group);
    const int64_t all = group.kept + group.dropped;
    Put(group, {.name = "needles_kept", .seed = Seed(group), .value = Real(group.kept), .n = all});
    Put(group, {.name = "needles_dropped", .seed = Seed(group), .value = Real(group.dropped), .n = all});
  }

  // What the table across models needs of one model; `groups` are those of its seeds.
  void AddModel(const std::vector<const RetrievalGroup*>& groups) {
    const RetrievalGroup& first = *groups.front();
    const v1::ModelConfig& config = first.model->config;
    Put(first, {.name = "query_heads_per_kv_head",
                .value = static_cast<double>(config.query_heads()) / static_cast<double>(config.kv_heads()),
                .n = config.layers() * config.query_heads()});
    const std::optional<double> base = RopeBaseOf(config);
    Put(first, {.name = "rope_base",
                .value = base,
                .because = base.has_value() ? "" : "the frequencies are no powers of one base"});
    for (const v1::Metric::Value metric : first.scores.metrics()) {
      std::vector<double> counts, shares;
      for (const RetrievalGroup* group : groups) {
        const auto count = static_cast<double>(CountOf(group->scores.Labels(metric, detection_.threshold())));
        counts.push_back(count);
        shares.push_back(count / Heads(*group));
      }
      AddOverSeeds(first, "retrieval_over_seeds", metric, counts);
      AddOverSeeds(first, "retrieval_share_over_seeds", metric, shares);
    }
  }

  std::vector<Table> Finish() {
    std::vector<Table> tables;
    tables.push_back(series_.Finish(/*whole_in_sql=*/true));
    tables.push_back(statistics_.Finish(/*whole_in_sql=*/true));
    return tables;
  }

 private:
  static std::optional<int64_t> Seed(const RetrievalGroup& group) {
    return static_cast<int64_t>(group.place.seed);
  }
  static double Real(int64_t value) { return static_cast<double>(value); }
  static double Heads(const RetrievalGroup& group) {
    return Real(group.scores.layers() * group.scores.heads());
  }

  void Put(const RetrievalGroup& group, const Figure& figure) {
    statistics_.Text(group.place.label).Text(v1::Dtype::Value_Name(group.place.dtype)).Text(numerics_class_);
    statistics_.Text(figure.name).Text(std::nullopt).Text(figure.detector).Real(figure.threshold);
    statistics_.Integer(figure.seed).Real(figure.value).Real(figure.low).Real(figure.high);
    statistics_.Real(std::nullopt).Integer(figure.n);
    statistics_.Text(figure.because.empty() ? std::nullopt : std::optional<std::string>(figure.because));
  }

  void AddCounts(const RetrievalGroup& group, v1::Metric::Value metric) {
    const auto heads = static_cast<int64_t>(Heads(group));
    for (const double threshold : ThresholdsOf(detection_)) {
      const int64_t count = CountOf(group.scores.Labels(metric, threshold));
      Figure figure = {.name = "retrieval",
                       .detector = MetricName(metric),
                       .threshold = threshold,
                       .seed = Seed(group),
                       .value = Real(count),
                       .n = heads};
      Put(group, figure);
      figure.name = "retrieval_share";
      figure.value = Real(count) / Real(heads);
      Put(group, figure);
    }
    const std::vector<HeadFigures> figures = group.scores.Figures(metric);
    const int64_t zeros = std::count_if(figures.begin(), figures.end(),
                                        [](const HeadFigures& head) { return head.score == 0; });
    Put(group, {.name = "exact_zeros",
                .detector = MetricName(metric),
                .seed = Seed(group),
                .value = Real(zeros) / Real(heads),
                .n = heads});
  }

  // Whether heads that share keys light up together; of multi-head attention there is nothing to ask.
  void AddGroups(const RetrievalGroup& group, v1::Metric::Value metric) {
    const v1::ModelConfig& config = group.model->config;
    if (config.kv_heads() >= config.query_heads()) {
      return;
    }
    const int64_t size = config.query_heads() / config.kv_heads();
    const std::vector<bool> labels = group.scores.Labels(metric, detection_.threshold());
    int64_t active = 0, full = 0;
    const int64_t groups = config.layers() * config.kv_heads();
    for (int64_t i = 0; i < groups; ++i) {
      const auto first = labels.begin() + i * size;
      const int64_t found = std::count(first, first + size, true);
      active += found > 0 ? 1 : 0;
      full += found == size ? 1 : 0;
    }
    Figure figure = {.name = "active_groups",
                     .detector = MetricName(metric),
                     .threshold = detection_.threshold(),
                     .seed = Seed(group),
                     .value = Real(active),
                     .n = groups};
    Put(group, figure);
    figure.n = active;
    figure.value.reset();
    figure.because = active > 0 ? "" : "no head is a retrieval head";
    figure.name = "retrieval_per_active_group";
    if (active > 0) {
      figure.value = Real(CountOf(labels)) / Real(active);
    }
    Put(group, figure);
    figure.name = "full_groups_share";
    if (active > 0) {
      figure.value = Real(full) / Real(active);
    }
    Put(group, figure);
  }

  void AddMargins(const RetrievalGroup& group, v1::Metric::Value metric) {
    for (size_t cell = 0; cell < group.scores.cells().size(); ++cell) {
      const DetectionCell& at = group.scores.cells()[cell];
      if (at.pooled() || at.whole() || at.samples == 0) {
        continue;
      }
      const bool by_length = at.context_length.has_value();
      series_.Text(group.place.label).Text(v1::Dtype::Value_Name(group.place.dtype)).Text(numerics_class_);
      series_.Text(absl::StrCat("retrieval_by_", by_length ? "context_length" : "depth", ".",
                                MetricName(metric), ".seed_", group.place.seed));
      series_.Real(by_length ? Real(*at.context_length) : *at.depth);
      series_.Real(Real(CountOf(group.scores.Labels(metric, detection_.threshold(), cell))));
    }
  }

  // Of every two detectors. The best n of either are compared, n being the size of the argmax set; without
  // ARGMAX there is but one detector.
  void AddAgreement(const RetrievalGroup& group) {
    if (!group.scores.Measured(v1::Metric::ARGMAX)) {
      return;
    }
    const int64_t n = CountOf(group.scores.Labels(v1::Metric::ARGMAX, detection_.threshold()));
    const auto& metrics = group.scores.metrics();
    for (size_t a = 0; a < metrics.size(); ++a) {
      for (size_t b = a + 1; b < metrics.size(); ++b) {
        const std::vector<HeadFigures> first = group.scores.Figures(metrics[a]);
        const std::vector<HeadFigures> second = group.scores.Figures(metrics[b]);
        const std::string pair = absl::StrCat(MetricName(metrics[a]), " ", MetricName(metrics[b]));
        const statistics::Defined<double> jaccard =
            statistics::Jaccard(statistics::OverlapOf(PlacesOf(first, n), PlacesOf(second, n)));
        Put(group, {.name = "jaccard",
                    .detector = pair,
                    .threshold = detection_.threshold(),
                    .seed = Seed(group),
                    .value = jaccard.maybe(),
                    .n = n,
                    .because = jaccard.because()});
        const statistics::Defined<double> spearman = statistics::Spearman(ScoresOf(first), ScoresOf(second));
        Put(group, {.name = "spearman",
                    .detector = pair,
                    .seed = Seed(group),
                    .value = spearman.maybe(),
                    .n = static_cast<int64_t>(first.size()),
                    .because = spearman.because()});
      }
    }
  }

  // Mean, and mean - SD and mean + SD (ddof 1) where there are several seeds.
  void AddOverSeeds(const RetrievalGroup& group, const char* name, v1::Metric::Value metric,
                    const std::vector<double>& values) {
    const auto [mean, sd] = statistics::SpreadOf(values);
    Figure figure = {.name = name,
                     .detector = MetricName(metric),
                     .threshold = detection_.threshold(),
                     .value = mean,
                     .n = static_cast<int64_t>(values.size())};
    if (sd.has_value()) {
      figure.low = mean - *sd;
      figure.high = mean + *sd;
    }
    Put(group, figure);
  }

  const v1::RetrievalDetection& detection_;
  const std::string numerics_class_;
  TableBuilder statistics_, series_;
};

}  // namespace

std::optional<double> RopeBaseOf(const v1::ModelConfig& config) {
  const int pairs = config.inv_freq_size();
  if (pairs < 2 || !(config.inv_freq(1) > 0)) {
    return std::nullopt;
  }
  const double step = 1.0 / static_cast<double>(pairs);
  const double base = std::pow(config.inv_freq(1), -1.0 / step);
  for (int pair = 0; pair < pairs; ++pair) {
    const double expected = std::pow(base, -step * pair);
    if (!(std::abs(config.inv_freq(pair) - expected) <= 1e-5 * expected)) {
      return std::nullopt;
    }
  }
  // Frequencies are fp32, which a large power makes coarse: the base is a decimal that somebody wrote.
  const double digits = std::pow(10.0, std::floor(std::log10(base)) - 3);
  return std::round(base / digits) * digits;
}

std::vector<Table> RetrievalStatistics(const v1::RetrievalDetection& detection,
                                       const std::vector<RetrievalGroup>& groups,
                                       const std::string& numerics_class) {
  Writer writer(detection, numerics_class);
  std::vector<const RetrievalGroup*> of_model;
  for (size_t i = 0; i < groups.size(); ++i) {
    writer.Add(groups[i]);
    of_model.push_back(&groups[i]);
    if (i + 1 == groups.size() || groups[i + 1].model != groups[i].model) {
      writer.AddModel(of_model);
      of_model.clear();
    }
  }
  return writer.Finish();
}

}  // namespace ropelab::experiments
