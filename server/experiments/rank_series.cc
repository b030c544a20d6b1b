#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/experiments/rank_tables.h"
#include "server/experiments/table_builder.h"

namespace ropelab::experiments {
namespace {

constexpr int64_t kSeriesWholeInSql = 100000;  // rows

// In any seed.
bool DominantAnywhere(const std::vector<RankGroup>& groups, const std::string& label, int64_t head) {
  return std::any_of(groups.begin(), groups.end(),
                     [&](const RankGroup& group) { return group.label == label && group.Dominant(0, head); });
}

}  // namespace

Table CosineSeries(const std::vector<RankGroup>& groups, const std::string& numerics_class) {
  TableBuilder series = SeriesTable();
  const auto add = [&](const RankGroup& group, const std::string& name, const v1::CosineCounts& cosines,
                       bool keep) {
    const int bins = cosines.counts_size();
    for (int bin = 0; bin < bins; ++bin) {
      const double centre = static_cast<double>(2 * bin + 1 - bins) / static_cast<double>(bins);
      series.Text(group.label).Text(group.dtype).Text(numerics_class).Text(name);
      series.Real(centre).Real(static_cast<double>(cosines.counts(bin)));
      if (keep) {
        series.KeepLastRowInSql();
      }
    }
  };
  const std::string* last = nullptr;  // the model whose rows stand already
  for (const RankGroup& group : groups) {
    if (last != nullptr && *last == group.label) {
      continue;
    }
    last = &group.label;
    for (int64_t head = 0; head < group.model->config.query_heads(); ++head) {
      const bool keep = DominantAnywhere(groups, group.label, head);
      add(group, absl::StrCat("cosine.W_Q.L0H", head),
          group.vocabulary_query->cosines(static_cast<int>(head)), keep);
      add(group, absl::StrCat("cosine.W_K.L0H", head),
          group.vocabulary_key->cosines(static_cast<int>(group.KvHead(head))), keep);
    }
  }
  return series.Finish(series.rows() <= kSeriesWholeInSql);
}

}  // namespace ropelab::experiments
