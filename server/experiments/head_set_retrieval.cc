#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/experiments/detection.h"
#include "server/experiments/earlier_tables.h"
#include "server/experiments/head_set_scored.h"

namespace ropelab::experiments {
namespace {

absl::StatusOr<std::vector<HeadFigures>> FiguresOf(const v1::RetrievalHeads& set, const Context& context,
                                                   const std::string& model, int64_t seed) {
  ROPELAB_ASSIGN_OR_RETURN(const v1::TableSlice* const table,
                           EarlierTable(context, set.experiment(), "head_scores"));
  ROPELAB_ASSIGN_OR_RETURN(std::vector<HeadFigures> figures,
                           ReadHeadFigures(*table, model, seed, set.metric()));
  if (figures.empty()) {
    return absl::InternalError(absl::StrCat("table head_scores of experiment \"", set.experiment(),
                                            "\" has no scores of ", MetricName(set.metric()), " on ", model,
                                            " with seed ", seed));
  }
  return figures;
}

}  // namespace

void ResolveRetrievalHeads(const v1::RetrievalHeads& set, const std::string& path, Problems& problems) {
  if (set.experiment().empty()) {
    problems.Add(path + ".experiment", "", "name the retrieval detection of this study that finds the heads");
  }
  CheckChoice(set, path, problems);
}

absl::StatusOr<std::vector<NamedHead>> RetrievalHeadsOf(const v1::RetrievalHeads& set, const Context& context,
                                                        const std::string& model, int64_t seed) {
  ROPELAB_ASSIGN_OR_RETURN(const std::vector<HeadFigures> figures, FiguresOf(set, context, model, seed));
  std::vector<bool> labels;
  if (set.choice_case() == v1::RetrievalHeads::kThreshold) {
    labels = RetrievalLabels(set.metric(), figures, set.threshold());
  } else {
    for (const HeadFigures& head : figures) {
      labels.push_back(head.retrieval);
    }
  }
  const int64_t found = std::count(labels.begin(), labels.end(), true);
  int64_t kept = found;
  if (set.choice_case() == v1::RetrievalHeads::kTop) {
    kept = std::min<int64_t>(found, set.top());
  } else if (set.choice_case() == v1::RetrievalHeads::kTopShare) {
    kept = ShareOf(set.top_share(), found);
  }
  std::vector<bool> chosen(figures.size(), false);
  for (const size_t i : RankedHeads(figures)) {
    if (labels[i] && kept > 0) {
      chosen[i] = true;
      --kept;
    }
  }
  std::vector<NamedHead> heads;
  for (size_t i = 0; i < figures.size(); ++i) {
    if (chosen[i]) {
      heads.push_back({figures[i].layer, figures[i].head, std::nullopt});
    }
  }
  return heads;
}

}  // namespace ropelab::experiments
