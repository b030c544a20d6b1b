#include "common/status_macros.h"
#include "server/experiments/outcome.h"
#include "server/experiments/outcome_fields.h"
#include "server/experiments/outcome_pairs.h"
#include "server/experiments/outcome_readings.h"
#include "server/experiments/outcome_statistics.h"
#include "server/experiments/outcome_tables.h"

namespace ropelab::experiments {
namespace {

// A line of the list: on all samples, where the perplexity stands as well, then by context length and depth.
void AddConditionRows(const OutcomeGroup& group, const OutcomeCondition& line, const ConditionKey& key,
                      TableBuilder& conditions) {
  for (const OutcomeLevel& level : LevelsOf(group.answers.samples())) {
    ConditionFigures figures;
    figures.context_length = level.context_length;
    figures.depth = level.depth;
    figures.accuracy = AccuracyOf(group.answers, line.measured, level);
    figures.samples = static_cast<int64_t>(level.samples.size());
    if (level.whole()) {
      figures.perplexity = group.losses.Perplexity(line.measured);
    }
    AddConditionRow(key, figures, conditions);
  }
}

}  // namespace

absl::StatusOr<Results> OutcomeExperiment::Reduce(const v1::ExperimentSpec& spec, const Context& context,
                                                  StageReadings& readings) const {
  ROPELAB_ASSIGN_OR_RETURN(const std::vector<OutcomeGroup> groups, ReadOutcomes(spec, context, readings));
  const OutcomeFields fields = FieldsOf(spec);
  TableBuilder conditions = ConditionsTable(), outcomes = OutcomesTable(), comparisons = ComparisonsTable();
  OutcomeStatistics statistics(fields, context.numerics_class);
  for (const OutcomeGroup& group : groups) {
    OutcomePairs pairs(group);
    for (const OutcomeCondition& line : group.conditions.list) {
      const ConditionKey key = KeyOf(fields, group, line, context.numerics_class);
      AddConditionRows(group, line, key, conditions);
      AddOutcomeRows(key, group.answers, line.measured, outcomes);
    }
    AddComparisonRows(group, context.numerics_class, pairs, comparisons);
    statistics.Add(group, pairs);
  }
  const bool whole = outcomes.rows() <= kOutcomesWholeInSql;
  Results results;
  results.tables.push_back(comparisons.Finish(true));
  results.tables.push_back(conditions.Finish(true));
  results.tables.push_back(outcomes.Finish(whole));
  results.tables.push_back(statistics.Finish());
  return results;
}

}  // namespace ropelab::experiments
