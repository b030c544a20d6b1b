#include "server/experiments/utility_labels.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "common/status_macros.h"
#include "server/experiments/detection.h"
#include "server/experiments/earlier_tables.h"
#include "server/experiments/head_set_imported.h"
#include "server/experiments/retrieval_labels.h"

namespace ropelab::experiments {
namespace {

v1::Metric::Value MetricOf(const v1::RetrievalHeads& set) {
  return set.has_metric() ? set.metric() : v1::Metric::ARGMAX;
}

// What the detection itself labelled heads with; none in a table without rows.
absl::StatusOr<std::optional<double>> DetectionThreshold(const v1::TableSlice& head_scores) {
  ROPELAB_ASSIGN_OR_RETURN(const v1::Column* const threshold, ColumnOf(head_scores, "threshold"));
  for (int row = 0; row < static_cast<int>(head_scores.rows()); ++row) {
    if (!IsNull(*threshold, row)) {
      return std::optional<double>(threshold->reals(row));
    }
  }
  return std::optional<double>();
}

absl::StatusOr<std::set<std::string>> MetricsOf(const v1::TableSlice& head_scores) {
  ROPELAB_ASSIGN_OR_RETURN(const v1::Column* const metric, ColumnOf(head_scores, "metric"));
  return std::set<std::string>(metric->texts().begin(), metric->texts().end());
}

absl::StatusOr<std::vector<Labelling>> OfRetrieval(const v1::UtilityTest& test, const Context& context) {
  const v1::RetrievalHeads& set = test.heads().retrieval();
  ROPELAB_ASSIGN_OR_RETURN(const v1::TableSlice* const table,
                           EarlierTable(context, set.experiment(), "head_scores"));
  ROPELAB_ASSIGN_OR_RETURN(const std::set<std::string> measured, MetricsOf(*table));
  std::set<double> thresholds(test.thresholds().begin(), test.thresholds().end());
  std::vector<Labelling> labellings;
  if (set.has_threshold()) {
    thresholds.insert(set.threshold());
  } else if (set.choice_case() == v1::RetrievalHeads::CHOICE_NOT_SET) {
    ROPELAB_ASSIGN_OR_RETURN(const std::optional<double> own, DetectionThreshold(*table));
    if (own.has_value()) {
      thresholds.insert(*own);
    }
  } else {
    labellings.push_back({MetricName(MetricOf(set)), std::nullopt, test.heads()});
  }
  std::set<v1::Metric::Value> metrics = {MetricOf(set)};
  for (const v1::Metric::Value other : {v1::Metric::ARGMAX, v1::Metric::MASS}) {
    if (measured.count(MetricName(other)) > 0) {
      metrics.insert(other);
    }
  }
  for (const v1::Metric::Value metric : metrics) {
    for (const double threshold : thresholds) {
      Labelling& labelling = labellings.emplace_back();
      labelling = {MetricName(metric), threshold, test.heads()};
      labelling.heads.mutable_retrieval()->set_metric(metric);
      labelling.heads.mutable_retrieval()->set_threshold(threshold);
    }
  }
  return labellings;
}

std::vector<Labelling> OfSlash(const v1::UtilityTest& test) {
  const v1::SlashDominantHeads& set = test.heads().slash_dominant();
  std::set<double> thresholds(test.thresholds().begin(), test.thresholds().end());
  std::vector<Labelling> labellings;
  if (set.has_threshold()) {
    thresholds.insert(set.threshold());
  } else {
    labellings.push_back({"slash_dominant", std::nullopt, test.heads()});
  }
  for (const double threshold : thresholds) {
    Labelling& labelling = labellings.emplace_back();
    labelling = {"slash_dominant", threshold, test.heads()};
    v1::SlashDominantHeads& cut = *labelling.heads.mutable_slash_dominant();
    cut.clear_top();
    cut.clear_top_share();
    cut.set_threshold(threshold);
  }
  return labellings;
}

std::vector<Labelling> OfImported(const v1::UtilityTest& test) {
  const v1::ImportedHeads& set = test.heads().imported();
  std::set<double> thresholds(test.thresholds().begin(), test.thresholds().end());
  std::vector<Labelling> labellings;
  if (set.has_threshold()) {
    thresholds.insert(set.threshold());
  } else {
    labellings.push_back({"imported", std::nullopt, test.heads()});
  }
  for (const double threshold : thresholds) {
    Labelling& labelling = labellings.emplace_back();
    labelling = {"imported", threshold, test.heads()};
    labelling.heads.mutable_imported()->set_threshold(threshold);
  }
  return labellings;
}

absl::StatusOr<HeadScoreMap> SlashScores(const std::string& experiment, const Context& context,
                                         const std::string& model, int64_t seed) {
  ROPELAB_ASSIGN_OR_RETURN(const v1::TableSlice* const table,
                           EarlierTable(context, experiment, "slash_heads"));
  ROPELAB_ASSIGN_OR_RETURN(const v1::Column* const models, ColumnOf(*table, "model"));
  ROPELAB_ASSIGN_OR_RETURN(const v1::Column* const seeds, ColumnOf(*table, "seed"));
  ROPELAB_ASSIGN_OR_RETURN(const v1::Column* const layer, ColumnOf(*table, "layer"));
  ROPELAB_ASSIGN_OR_RETURN(const v1::Column* const head, ColumnOf(*table, "head"));
  ROPELAB_ASSIGN_OR_RETURN(const v1::Column* const score, ColumnOf(*table, "score"));
  HeadScoreMap scores;
  for (int row = 0; row < static_cast<int>(table->rows()); ++row) {
    if (models->texts(row) == model && seeds->integers(row) == seed && !IsNull(*score, row)) {
      scores[{layer->integers(row), head->integers(row)}] = score->reals(row);
    }
  }
  return scores;
}

absl::StatusOr<HeadScoreMap> RetrievalScores(const std::string& experiment, const std::string& detector,
                                             const Context& context, const std::string& model, int64_t seed) {
  ROPELAB_ASSIGN_OR_RETURN(const v1::TableSlice* const table,
                           EarlierTable(context, experiment, "head_scores"));
  ROPELAB_ASSIGN_OR_RETURN(const v1::Metric::Value metric, MetricNamed(detector));
  ROPELAB_ASSIGN_OR_RETURN(const std::vector<HeadFigures> figures,
                           ReadHeadFigures(*table, model, seed, metric));
  HeadScoreMap scores;
  for (const HeadFigures& of_head : figures) {
    scores[{of_head.layer, of_head.head}] = of_head.score;
  }
  return scores;
}

}  // namespace

absl::StatusOr<std::vector<Labelling>> LabellingsOf(const v1::UtilityTest& test, const Context& context) {
  std::vector<Labelling> labellings;
  if (test.heads().has_retrieval()) {
    ROPELAB_ASSIGN_OR_RETURN(labellings, OfRetrieval(test, context));
  } else if (test.heads().has_slash_dominant()) {
    labellings = OfSlash(test);
  } else if (test.heads().has_imported()) {
    labellings = OfImported(test);
  } else {
    labellings.push_back({"list", std::nullopt, test.heads()});
  }
  std::sort(labellings.begin(), labellings.end(), [](const Labelling& a, const Labelling& b) {
    return std::tie(a.detector, a.threshold) < std::tie(b.detector, b.threshold);
  });
  return labellings;
}

std::vector<std::string> DetectorsOf(const std::vector<Labelling>& labellings) {
  std::set<std::string> detectors;
  for (const Labelling& labelling : labellings) {
    detectors.insert(labelling.detector);
  }
  return {detectors.begin(), detectors.end()};
}

absl::StatusOr<statistics::Defined<HeadScoreMap>> HeadScoresOf(const v1::UtilityTest& test,
                                                               const std::string& detector,
                                                               const Context& context,
                                                               const ModelFacts& facts,
                                                               const std::string& model, int64_t seed) {
  HeadScoreMap scores;
  if (test.heads().has_retrieval()) {
    ROPELAB_ASSIGN_OR_RETURN(
        scores, RetrievalScores(test.heads().retrieval().experiment(), detector, context, model, seed));
  } else if (test.heads().has_slash_dominant()) {
    ROPELAB_ASSIGN_OR_RETURN(scores,
                             SlashScores(test.heads().slash_dominant().experiment(), context, model, seed));
  } else if (test.heads().has_imported()) {
    ROPELAB_ASSIGN_OR_RETURN(const ImportedScores published,
                             FindHeadScores(context.scores, test.heads().imported().name()));
    for (const ImportedScores::Head& head : published.heads) {
      if (head.layer < facts.config.layers() && head.head < facts.config.query_heads()) {
        scores[{head.layer, head.head}] = head.mean;
      }
    }
  } else {
    return statistics::Defined<HeadScoreMap>(statistics::Undefined{"a listed set has no head scores"});
  }
  return statistics::Defined<HeadScoreMap>(std::move(scores));
}

}  // namespace ropelab::experiments
