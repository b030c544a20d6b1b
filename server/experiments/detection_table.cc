#include <map>
#include <string>
#include <utility>

#include "common/status_macros.h"
#include "server/experiments/detection.h"
#include "server/experiments/earlier_tables.h"

namespace ropelab::experiments {
namespace {

constexpr int64_t kWholeInSql = 262144;  // rows

const std::vector<ColumnShape>& Columns() {
  static const std::vector<ColumnShape> columns = {{"metric", v1::Column::TEXT, true},
                                                   {"checkpoint", v1::Column::TEXT, true},
                                                   {"layer", v1::Column::INTEGER, true},
                                                   {"head", v1::Column::INTEGER, true},
                                                   {"context_length", v1::Column::INTEGER, true},
                                                   {"depth", v1::Column::REAL, true},
                                                   {"seed", v1::Column::INTEGER, true},
                                                   {"score", v1::Column::REAL, false},
                                                   {"samples", v1::Column::INTEGER, false},
                                                   {"hits", v1::Column::INTEGER, false},
                                                   {"threshold", v1::Column::REAL, false},
                                                   {"retrieval", v1::Column::BOOLEAN, false}};
  return columns;
}

}  // namespace

HeadScoresTable::HeadScoresTable(std::string numerics_class)
    : numerics_class_(std::move(numerics_class)), table_("head_scores", WithLeadingColumns(Columns())) {}

void HeadScoresTable::Add(const DetectionPlace& place, const DetectionScores& scores, double threshold) {
  for (const v1::Metric::Value metric : scores.metrics()) {
    for (size_t cell = 0; cell < scores.cells().size(); ++cell) {
      const DetectionCell& at = scores.cells()[cell];
      if (at.samples == 0 || !(at.pooled() || at.whole())) {
        continue;
      }
      const std::vector<HeadFigures> figures = scores.Figures(metric, cell);
      const std::vector<bool> labels = RetrievalLabels(metric, figures, threshold);
      for (size_t i = 0; i < figures.size(); ++i) {
        const HeadFigures& of_head = figures[i];
        table_.Text(place.label).Text(v1::Dtype::Value_Name(place.dtype)).Text(numerics_class_);
        table_.Text(MetricName(metric)).Text(place.checkpoint);
        table_.Integer(of_head.layer).Integer(of_head.head);
        table_.Integer(at.context_length).Real(at.depth).Integer(static_cast<int64_t>(place.seed));
        table_.Real(of_head.score).Integer(of_head.samples);
        table_.Integer(metric == v1::Metric::ARGMAX ? std::optional<int64_t>(of_head.hits) : std::nullopt);
        table_.Real(at.pooled() ? std::optional<double>(threshold) : std::nullopt);
        table_.Boolean(at.pooled() ? std::optional<bool>(labels[i]) : std::nullopt);
        if (at.pooled()) {
          table_.KeepLastRowInSql();
        }
      }
    }
  }
}

Table HeadScoresTable::Finish() {
  return table_.Finish(/*whole_in_sql=*/table_.rows() <= kWholeInSql);
}

absl::StatusOr<std::vector<HeadFigures>> ReadHeadFigures(const v1::TableSlice& head_scores,
                                                         const std::string& label, int64_t seed,
                                                         v1::Metric::Value metric) {
  ROPELAB_ASSIGN_OR_RETURN(const v1::Column* const model, ColumnOf(head_scores, "model"));
  ROPELAB_ASSIGN_OR_RETURN(const v1::Column* const metrics, ColumnOf(head_scores, "metric"));
  ROPELAB_ASSIGN_OR_RETURN(const v1::Column* const layer, ColumnOf(head_scores, "layer"));
  ROPELAB_ASSIGN_OR_RETURN(const v1::Column* const head, ColumnOf(head_scores, "head"));
  ROPELAB_ASSIGN_OR_RETURN(const v1::Column* const length, ColumnOf(head_scores, "context_length"));
  ROPELAB_ASSIGN_OR_RETURN(const v1::Column* const depth, ColumnOf(head_scores, "depth"));
  ROPELAB_ASSIGN_OR_RETURN(const v1::Column* const seeds, ColumnOf(head_scores, "seed"));
  ROPELAB_ASSIGN_OR_RETURN(const v1::Column* const score, ColumnOf(head_scores, "score"));
  ROPELAB_ASSIGN_OR_RETURN(const v1::Column* const samples, ColumnOf(head_scores, "samples"));
  ROPELAB_ASSIGN_OR_RETURN(const v1::Column* const hits, ColumnOf(head_scores, "hits"));
  ROPELAB_ASSIGN_OR_RETURN(const v1::Column* const retrieval, ColumnOf(head_scores, "retrieval"));
  const std::string wanted = MetricName(metric), mass = MetricName(v1::Metric::MASS),
                    argmax = MetricName(v1::Metric::ARGMAX);
  struct Joined {
    HeadFigures figures;
    bool has_score = false;
  };
  std::map<std::pair<int64_t, int64_t>, Joined> heads;
  for (int row = 0; row < static_cast<int>(head_scores.rows()); ++row) {
    if (model->texts(row) != label || seeds->integers(row) != seed || !IsNull(*length, row) ||
        !IsNull(*depth, row)) {
      continue;
    }
    Joined& joined = heads[{layer->integers(row), head->integers(row)}];
    HeadFigures& figures = joined.figures;
    figures.layer = layer->integers(row);
    figures.head = head->integers(row);
    const std::string& of = metrics->texts(row);
    if (of == wanted) {
      figures.score = score->reals(row);
      figures.samples = samples->integers(row);
      figures.retrieval = retrieval->integers(row) != 0;
      joined.has_score = true;
    }
    if (of == mass) {
      figures.mass = score->reals(row);
    }
    if (of == argmax) {
      figures.hits = hits->integers(row);
    }
  }
  std::vector<HeadFigures> figures;
  for (const auto& [place, joined] : heads) {
    if (joined.has_score) {
      figures.push_back(joined.figures);
    }
  }
  return figures;
}

}  // namespace ropelab::experiments
