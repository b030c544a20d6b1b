// The heads of a set in the order of their scores.
#include <algorithm>
#include <cstddef>
#include <tuple>

#include "common/status_macros.h"
#include "server/experiments/detection.h"
#include "server/experiments/earlier_tables.h"
#include "server/experiments/head_set_imported.h"
#include "server/experiments/outcome_conditions.h"

namespace ropelab::experiments {
namespace {

bool Holds(const std::vector<NamedHead>& heads, int64_t layer, int64_t head) {
  return std::any_of(heads.begin(), heads.end(),
                     [&](const NamedHead& other) { return other.layer == layer && other.head == head; });
}

// `ranked`: anything with layer and head, best first. The first `count` of them that the set holds.
template <typename Head>
std::vector<NamedHead> FirstOf(const std::vector<Head>& all, const std::vector<size_t>& ranked,
                               const std::vector<NamedHead>& set, int64_t count) {
  std::vector<NamedHead> best;
  for (const size_t i : ranked) {
    if (static_cast<int64_t>(best.size()) < count && Holds(set, all[i].layer, all[i].head)) {
      best.push_back({all[i].layer, all[i].head, std::nullopt});
    }
  }
  std::sort(best.begin(), best.end(), [](const NamedHead& a, const NamedHead& b) {
    return std::tie(a.layer, a.head) < std::tie(b.layer, b.head);
  });
  return best;
}

}  // namespace

absl::StatusOr<std::vector<NamedHead>> BestHeadsOf(const v1::HeadSet& set, int64_t count,
                                                   const Context& context, const std::string& model,
                                                   int64_t seed) {
  if (set.has_slash_dominant()) {
    v1::HeadSet best = set;
    best.mutable_slash_dominant()->clear_top_share();
    best.mutable_slash_dominant()->set_top(count);
    return HeadsOf(best, context, model, seed);
  }
  ROPELAB_ASSIGN_OR_RETURN(const std::vector<NamedHead> heads, HeadsOf(set, context, model, seed));
  if (set.has_retrieval()) {
    ROPELAB_ASSIGN_OR_RETURN(const v1::TableSlice* const table,
                             EarlierTable(context, set.retrieval().experiment(), "head_scores"));
    ROPELAB_ASSIGN_OR_RETURN(const std::vector<HeadFigures> figures,
                             ReadHeadFigures(*table, model, seed, set.retrieval().metric()));
    return FirstOf(figures, RankedHeads(figures), heads, count);
  }
  if (set.has_imported()) {
    ROPELAB_ASSIGN_OR_RETURN(const ImportedScores scores,
                             FindHeadScores(context.scores, set.imported().name()));
    return FirstOf(scores.heads, RankedHeads(scores), heads, count);
  }
  v1::HeadSet listed;
  for (int i = 0; i < set.list().head_size() && i < count; ++i) {
    *listed.mutable_list()->add_head() = set.list().head(i);
  }
  return HeadsOf(listed, context, model, seed);
}

std::optional<std::string> DetectorOf(const v1::HeadSet& set) {
  if (set.has_retrieval()) {
    return MetricName(set.retrieval().metric());
  }
  if (set.has_imported()) {
    return "imported";
  }
  return set.has_slash_dominant() ? std::optional<std::string>("slash") : std::nullopt;
}

}  // namespace ropelab::experiments
