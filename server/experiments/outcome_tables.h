// The tables `conditions` and `outcomes`: how good the answers are under each condition, and every answer.
// low_rank fills the first as well, and the second where it has needles.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "server/experiments/outcome_fields.h"
#include "server/experiments/outcome_readings.h"
#include "server/experiments/table_builder.h"

namespace ropelab::experiments {

// What names a condition in either table; what does not apply is empty.
struct ConditionKey {
  std::string model, dtype, numerics_class;
  int64_t seed = 0;
  std::string condition;
  std::optional<std::string> detector = {}, control = {};
  std::optional<int64_t> draw = {};
  std::optional<std::string> target = {}, stage = {}, positions = {};
  std::optional<int64_t> heads = {}, dims = {};
  std::optional<double> dose = {}, coverage = {};
  std::optional<int64_t> rank = {}, layer = {}, head = {};
};
// One row of `conditions`.
struct ConditionFigures {
  std::optional<int64_t> context_length = {};
  std::optional<double> depth = {};
  std::optional<double> accuracy = {};
  std::optional<int64_t> samples = {};
  std::optional<double> perplexity = {};
  std::optional<int64_t> saved_parameters = {};
};

TableBuilder ConditionsTable();
void AddConditionRow(const ConditionKey& key, const ConditionFigures& figures, TableBuilder& conditions);

inline constexpr int64_t kOutcomesWholeInSql = 262144;  // rows
TableBuilder OutcomesTable();
// A row per sample.
void AddOutcomeRows(const ConditionKey& key, const OutcomeAnswers& answers, size_t measured,
                    TableBuilder& outcomes);

// Of a line of the group's list.
ConditionKey KeyOf(const OutcomeFields& fields, const OutcomeGroup& group, const OutcomeCondition& line,
                   const std::string& numerics_class);

}  // namespace ropelab::experiments
