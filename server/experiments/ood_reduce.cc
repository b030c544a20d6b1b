#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/experiments/maps_results.h"
#include "server/experiments/ood_test.h"
#include "server/experiments/slash_tables.h"
#include "server/statistics/quantiles.h"

namespace ropelab::experiments {
namespace {

TableBuilder RatiosTable() {
  return TableBuilder("ood_ratios", WithLeadingColumns({{"seed", v1::Column::INTEGER, true},
                                                        {"layer", v1::Column::INTEGER, true},
                                                        {"head", v1::Column::INTEGER, true},
                                                        {"offset", v1::Column::INTEGER, true},
                                                        {"score_id", v1::Column::REAL, false},
                                                        {"score_ood", v1::Column::REAL, false},
                                                        {"ratio", v1::Column::REAL, false},
                                                        {"outlier", v1::Column::BOOLEAN, false}}));
}

class RatioWriter {
 public:
  RatioWriter(const v1::SlashDetection& detection, const std::string& numerics_class,
              TableBuilder& statistics)
      : detection_(detection),
        numerics_class_(numerics_class),
        statistics_(statistics),
        ratios_(RatiosTable()) {}

  // `out`: the same model and seed over the other prompts; null when nothing was measured there.
  void Add(const DetectionGroup& in, const DetectionGroup* out) {
    const std::vector<DominantHead> heads = DominantHeadsOf(detection_, in);
    std::vector<double> scores, ratios;
    for (const DominantHead& head : heads) {
      scores.push_back(out->ranges.front().At(head.layer, head.head, head.offset).mean);
      ratios.push_back(scores.back() / head.score);
    }
    if (heads.empty()) {
      AddUndefined(in);
      return;
    }
    const statistics::FiveNumbers numbers = statistics::FiveNumbersOf(ratios);
    int64_t outliers = 0;
    for (size_t i = 0; i < heads.size(); ++i) {
      const bool outlier = numbers.IsOutlier(ratios[i]);
      outliers += outlier ? 1 : 0;
      ratios_.Text(in.label).Text(in.dtype).Text(numerics_class_).Integer(in.seed);
      ratios_.Integer(heads[i].layer).Integer(heads[i].head).Integer(heads[i].offset);
      ratios_.Real(heads[i].score).Real(scores[i]).Real(ratios[i]).Boolean(outlier);
    }
    const int64_t n = static_cast<int64_t>(heads.size());
    AddStatistic(in, "ood_ratio_minimum", std::nullopt, numbers.minimum, n);
    AddStatistic(in, "ood_ratio_q1", std::nullopt, numbers.q1, n);
    AddStatistic(in, "ood_ratio_median", std::nullopt, numbers.median, n);
    AddStatistic(in, "ood_ratio_q3", std::nullopt, numbers.q3, n);
    AddStatistic(in, "ood_ratio_maximum", std::nullopt, numbers.maximum, n);
    AddStatistic(in, "ood_ratio_outliers", std::nullopt, static_cast<double>(outliers), n);
    const double threshold = detection_.threshold();
    AddStatistic(in, "ood_share_at_threshold", threshold, ShareAtLeast(scores, threshold), n);
    AddStatistic(in, "ood_share_at_half_threshold", threshold / 2, ShareAtLeast(scores, threshold / 2), n);
  }

  Table Finish() { return ratios_.Finish(true); }

 private:
  static double ShareAtLeast(const std::vector<double>& scores, double threshold) {
    int64_t passing = 0;
    for (const double score : scores) {
      passing += score >= threshold ? 1 : 0;
    }
    return static_cast<double>(passing) / static_cast<double>(scores.size());
  }

  void AddUndefined(const DetectionGroup& group) {
    for (const char* name : {"ood_ratio_minimum", "ood_ratio_q1", "ood_ratio_median", "ood_ratio_q3",
                             "ood_ratio_maximum", "ood_ratio_outliers"}) {
      AddStatistic(group, name, std::nullopt, std::nullopt, 0);
    }
    AddStatistic(group, "ood_share_at_threshold", detection_.threshold(), std::nullopt, 0);
    AddStatistic(group, "ood_share_at_half_threshold", detection_.threshold() / 2, std::nullopt, 0);
  }

  void AddStatistic(const DetectionGroup& group, const char* name, std::optional<double> threshold,
                    std::optional<double> value, int64_t n) {
    statistics_.Text(group.label).Text(group.dtype).Text(numerics_class_).Text(name);
    statistics_.Text(std::nullopt).Text(std::nullopt).Real(threshold).Integer(group.seed).Real(value);
    statistics_.Real(std::nullopt).Real(std::nullopt).Real(std::nullopt).Integer(n);
    statistics_.Text(value.has_value() ? std::optional<std::string>()
                                       : "no head is slash-dominant in distribution, so there is no ratio");
  }

  const v1::SlashDetection& detection_;
  const std::string numerics_class_;
  TableBuilder& statistics_;
  TableBuilder ratios_;
};

}  // namespace

absl::StatusOr<Results> OodTestExperiment::Reduce(const v1::ExperimentSpec& spec, const Context& context,
                                                  StageReadings& readings) const {
  const v1::ExperimentSpec in = InDistribution(spec);
  const v1::SlashDetection& detection = in.slash_detection();
  ROPELAB_ASSIGN_OR_RETURN(std::vector<DetectionGroup> groups,
                           ReadDetection(in, context, readings, MeasuredRanges(detection)));
  SortGroups(groups);
  bool any = false;
  for (const DetectionGroup& group : groups) {
    any = any || !DominantHeadsOf(detection, group).empty();
  }
  std::vector<DetectionGroup> others;
  if (any) {
    ROPELAB_ASSIGN_OR_RETURN(const std::optional<int64_t> last,
                             ProfileStage(in, context, std::numeric_limits<int64_t>::max(), readings));
    LaterReadings later(readings, last.value_or(0));
    ROPELAB_ASSIGN_OR_RETURN(
        others, ReadDetection(OutOfDistribution(spec), context, later, OutOfDistributionRanges(spec)));
    SortGroups(others);
  }
  SlashTables tables(detection, context.numerics_class);
  RatioWriter ratios(detection, context.numerics_class, tables.statistics());
  for (size_t i = 0; i < groups.size(); ++i) {
    tables.Add(groups[i]);
    ratios.Add(groups[i], any ? &others[i] : nullptr);
  }
  AddMapStatistics(detection, groups, context.numerics_class, tables.statistics());
  Results results = tables.Finish();
  results.tables.push_back(ratios.Finish());
  AddMaps(detection, groups, context.numerics_class, results);
  return results;
}

}  // namespace ropelab::experiments
