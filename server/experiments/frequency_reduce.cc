#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

#include "common/status_macros.h"
#include "server/experiments/frequency_analysis.h"
#include "server/experiments/frequency_tables.h"
#include "server/experiments/prompts.h"

namespace ropelab::experiments {
namespace {

// A copy of `values` in this order.
template <typename Value>
std::vector<Value> InOrder(std::vector<Value> values, const std::vector<size_t>& order) {
  std::vector<Value> sorted;
  for (const size_t place : order) {
    sorted.push_back(std::move(values[place]));
  }
  return sorted;
}

void AddCounts(const FrequencyOutcome& outcome, const FrequencyGroup& group, const FoundPrompts& found,
               size_t place, TableBuilder& statistics) {
  const int64_t heads = group.model->config.layers() * group.model->config.query_heads();
  const auto add = [&](const char* name, int64_t value, int64_t n) {
    AddFrequencyStatistic(outcome, group, {name, static_cast<double>(value), n}, statistics);
  };
  add("analysed_heads", static_cast<int64_t>(group.heads.size()), heads);
  if (!found.choices.empty()) {
    const CorpusChoice& choice = found.choices[place];
    add("corpus_documents_read", choice.read, found.in_corpus);
    add("corpus_skipped", choice.skipped, choice.read);
  }
}

}  // namespace

absl::StatusOr<Results> FrequencyAnalysisExperiment::Reduce(const v1::ExperimentSpec& spec,
                                                            const Context& context,
                                                            StageReadings& readings) const {
  const v1::FrequencyAnalysis& analysis = spec.frequency_analysis();
  ROPELAB_ASSIGN_OR_RETURN(std::vector<FrequencyGroup> groups, FrequencyGroupsOf(spec, context));
  FoundPrompts found;
  std::vector<FrequencyMeasures> measures(groups.size());
  if (!AllHeadsOf(groups).empty()) {
    ROPELAB_ASSIGN_OR_RETURN(
        found, FindPrompts(analysis.prompts(), spec, context, std::numeric_limits<int64_t>::max(), readings));
    ROPELAB_ASSIGN_OR_RETURN(measures, ReadProfiles(spec, groups, found, readings, FrequencyReading::kAll));
    ROPELAB_RETURN_IF_ERROR(ReadFits(spec, groups, found, readings, measures));
  }
  // By label, dtype and seed, so that no table is sorted again.
  std::vector<size_t> order(groups.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::tie(groups[a].label, groups[a].dtype, groups[a].seed) <
           std::tie(groups[b].label, groups[b].dtype, groups[b].seed);
  });
  groups = InOrder(std::move(groups), order);
  measures = InOrder(std::move(measures), order);
  const FrequencyOutcome outcome = {analysis, groups, measures, context.numerics_class};
  TableBuilder statistics = StatisticsTable();
  Results results;
  results.tables.push_back(FrequenciesTable(outcome));
  results.tables.push_back(FitsTable(outcome));
  if (!analysis.removals().empty()) {
    results.tables.push_back(RemovalsTable(outcome, statistics));
  }
  const PromptShape shape = ShapeOf(analysis.prompts()).value_or(PromptShape());
  results.tables.push_back(CosineSumsTable(outcome, shape.longest, statistics));
  for (size_t g = 0; g < groups.size(); ++g) {
    AddCounts(outcome, groups[g], found, order[g], statistics);
    if (!groups[g].heads.empty()) {
      results.made.push_back(
          {HeatMapsFileName(groups[g], groups.size()), HeatMapsFile(groups[g], measures[g])});
    }
  }
  results.tables.push_back(statistics.Finish(true));
  return results;
}

}  // namespace ropelab::experiments
