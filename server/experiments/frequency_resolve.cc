#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/experiments/frequency_analysis.h"
#include "server/experiments/frequency_groups.h"
#include "server/experiments/frequency_removals.h"

namespace ropelab::experiments {
namespace {

std::string At(const std::string& field) {
  return absl::StrCat("frequency_analysis.", field);
}

// A list brings its offsets itself; a detection always does.
void CheckOffsetsGiven(const v1::FrequencyAnalysis& analysis, Problems& problems) {
  const bool at_lag = analysis.active_average() == v1::ActiveAverage::AT_LAG;
  if (!at_lag && analysis.removals().empty()) {
    return;
  }
  if (analysis.heads().has_retrieval() || analysis.heads().has_imported()) {
    problems.Add(At(analysis.heads().has_retrieval() ? "heads.retrieval" : "heads.imported"), "",
                 "such heads have no offset of a slash; say active_average: ABS and leave removals out");
  }
  for (int i = 0; i < analysis.heads().list().head_size(); ++i) {
    if (analysis.heads().list().head(i).has_offset()) {
      continue;
    }
    problems.Add(
        At(absl::StrCat("heads.list.head[", i, "].offset")), "",
        at_lag
            ? "active_average AT_LAG is taken at each head's own offset; give it, or say active_average: ABS"
            : "a removal's score is taken at each head's own offset; give it, or leave removals out");
  }
}

void ResolvePairs(v1::Removal& removal, const std::string& path, const Facts& facts, Problems& problems) {
  std::sort(removal.mutable_pairs()->begin(), removal.mutable_pairs()->end());
  for (int i = 0; i < removal.pairs_size(); ++i) {
    const int32_t pair = removal.pairs(i);
    for (const ModelFacts& model : facts.models) {
      const int64_t pairs = model.config.head_dim() / 2;
      if (pair < 1 || pair > pairs) {
        problems.Add(
            path + ".pairs", absl::StrCat(pair),
            absl::StrCat("a head of model ", model.name, " has pairs 1 to ", pairs, ", the fastest first"));
      }
    }
    if (i > 0 && pair == removal.pairs(i - 1)) {
      problems.Add(path + ".pairs", absl::StrCat(pair), "is named twice; name each pair once");
    }
  }
}

void ResolveRemovals(v1::FrequencyAnalysis& analysis, const Facts& facts, Problems& problems) {
  bool bands = false, each_pair = false;
  std::set<std::vector<int32_t>> lists;
  if (analysis.removals_size() > kMostRemovals) {
    problems.Add(At("removals"), absl::StrCat(analysis.removals_size(), " removals"),
                 absl::StrCat("at most ", kMostRemovals, " in one experiment"));
    return;
  }
  for (int i = 0; i < analysis.removals_size(); ++i) {
    v1::Removal& removal = *analysis.mutable_removals(i);
    const std::string path = At(absl::StrCat("removals[", i, "]"));
    if (!removal.bands() && !removal.each_pair() && removal.pairs().empty()) {
      problems.Add(path, "", "says nothing to remove; say bands: true, each_pair: true or pairs: [1, 2]");
    }
    if (removal.bands() && bands) {
      problems.Add(path + ".bands", "true", "stands in another removal; make a second experiment of it");
    }
    if (removal.each_pair() && each_pair) {
      problems.Add(path + ".each_pair", "true", "stands in another removal; say it once");
    }
    bands = bands || removal.bands();
    each_pair = each_pair || removal.each_pair();
    if (removal.bands() && !removal.has_per_band()) {
      removal.set_per_band(v1::PerBand::SIX);
    } else if (!removal.bands() && removal.has_per_band()) {
      // Harmless, so it is not refused; what moves no result stands in no resolved spec.
      problems.Warn(absl::StrCat(path, ".per_band ", v1::PerBand::Value_Name(removal.per_band()),
                                 " changes nothing: no band is removed here"));
      removal.clear_per_band();
    }
    if (!removal.has_bands()) {
      removal.set_bands(false);
    }
    if (!removal.has_each_pair()) {
      removal.set_each_pair(false);
    }
    ResolvePairs(removal, path, facts, problems);
    const std::vector<int32_t> list(removal.pairs().begin(), removal.pairs().end());
    if (!list.empty() && !lists.insert(list).second) {
      problems.Add(path + ".pairs", RemovedText(list), "stands in another removal; say it once");
    }
  }
}

void ResolveRows(v1::FrequencyAnalysis& analysis, const PromptShape& shape, Problems& problems) {
  std::sort(analysis.mutable_rows()->begin(), analysis.mutable_rows()->end());
  for (int i = 0; i < analysis.rows_size(); ++i) {
    const int64_t row = analysis.rows(i), last = std::min(shape.shortest, kLongestHeatRow);
    if (row < 1 || row > last) {
      problems.Add(At("rows"), absl::StrCat(row),
                   absl::StrCat("rows count from 1, and these prompts have 1 to ", last));
    }
    if (i > 0 && row == analysis.rows(i - 1)) {
      problems.Add(At("rows"), absl::StrCat(row), "is named twice; name each row once");
    }
  }
}

// Of a list; what a detection will find is checked when it is planned.
void CheckListed(const v1::ExperimentSpec& spec, const PromptShape& shape, const Facts& facts,
                 Problems& problems) {
  const v1::FrequencyAnalysis& analysis = spec.frequency_analysis();
  std::vector<NamedHead> heads;
  for (const v1::Head& head : analysis.heads().list().head()) {
    heads.push_back({head.layer(), head.head(),
                     head.has_offset() ? std::optional<int64_t>(head.offset()) : std::nullopt});
  }
  std::vector<std::optional<v1::FieldProblem>> found;
  for (const ModelFacts& model : facts.models) {
    found.push_back(
        HeadsProblem(analysis, shape, model, heads, {analysis.rows().begin(), analysis.rows().end()}));
  }
  const int64_t groups = static_cast<int64_t>(facts.models.size()) * spec.seeds_size();
  found.push_back(CosineRowsProblem(shape, groups * (static_cast<int64_t>(heads.size()) + 1)));
  for (const std::optional<v1::FieldProblem>& problem : found) {
    if (problem.has_value()) {
      problems.Add(problem->field(), problem->value(), problem->remedy());
    }
  }
}

void CheckTasks(const v1::ExperimentSpec& spec, const PromptShape& shape, const Facts& facts,
                Problems& problems) {
  const int64_t kinds = spec.frequency_analysis().removals().empty() ? 2 : 3;
  const int64_t tasks =
      kinds * BlockCount(shape.count) * spec.seeds_size() * static_cast<int64_t>(facts.models.size());
  if (tasks > kMostFrequencyTasks) {
    problems.Add(At("prompts"), absl::StrCat(shape.count, " prompts"),
                 absl::StrCat("make ", tasks, " tasks; at most ", kMostFrequencyTasks,
                              ": fewer prompts, seeds or models"));
  }
}

}  // namespace

void FrequencyAnalysisExperiment::Resolve(v1::ExperimentSpec& spec, const Facts& facts,
                                          Problems& problems) const {
  v1::FrequencyAnalysis& analysis = *spec.mutable_frequency_analysis();
  ResolveHeadSet(analysis.heads(), At("heads"), facts, problems);
  ResolvePrompts(*analysis.mutable_prompts(), At("prompts"), spec, facts, problems);
  if (!analysis.has_active_average()) {
    analysis.set_active_average(v1::ActiveAverage::AT_LAG);
  }
  CheckOffsetsGiven(analysis, problems);
  ResolveRemovals(analysis, facts, problems);
  if (analysis.has_assumption_length() && !(analysis.assumption_length() >= 0)) {
    problems.Add(At("assumption_length"), absl::StrCat(analysis.assumption_length()),
                 "Assumption 5.1 takes a constant L of 0 or more");
  }
  const std::optional<PromptShape> shape = ShapeOf(analysis.prompts());
  if (!shape.has_value() || shape->count < 1) {
    return;
  }
  ResolveRows(analysis, *shape, problems);
  if (!problems.empty()) {
    return;
  }
  if (analysis.heads().has_list()) {
    std::vector<NamedHead> heads;
    for (const v1::Head& head : analysis.heads().list().head()) {
      heads.push_back({head.layer(), head.head(),
                       head.has_offset() ? std::optional<int64_t>(head.offset()) : std::nullopt});
    }
    const std::vector<int64_t> rows = HeatRowsOf(analysis, *shape, heads);
    analysis.mutable_rows()->Assign(rows.begin(), rows.end());
    CheckListed(spec, *shape, facts, problems);
  }
  CheckTasks(spec, *shape, facts, problems);
}

}  // namespace ropelab::experiments
