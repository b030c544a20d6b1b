// The six kinds that measure what edits of a set of heads do to recall and perplexity, seen as one: knockout,
// patch, per_head_patch, dose_sweep, coverage_sweep and context_sweep. EXPERIMENTS.md section 9.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/experiments/experiment.h"

namespace ropelab::experiments {

// Points into the spec that it was made of, which must outlive it.
struct OutcomeFields {
  std::string kind;  // the spec's field: "patch"
  const v1::HeadSet* heads = nullptr;
  const v1::Needles* needles = nullptr;
  const v1::PromptSource* perplexity = nullptr;  // null: none is measured
  std::vector<v1::ControlHeads> controls;

  // Of all but knockout, which has none of these: it zeroes whole heads.
  std::vector<v1::PatchCondition::Value> conditions;  // ascending
  std::vector<double> shares;                         // of head_dim, ascending; empty: `dims`
  std::optional<int64_t> dims;
  v1::RandomDims random_dims;
  std::optional<v1::Target::Value> target;
  std::optional<v1::EditStage::Value> stage;

  std::vector<double> coverages;                      // of the heads, ascending; empty: all of them
  std::optional<v1::EditPositions::Value> positions;  // or
  std::optional<v1::PositionRange> range;

  bool knockout() const { return kind == "knockout"; }
  bool per_head() const { return kind == "per_head_patch"; }
  bool Has(v1::PatchCondition::Value condition) const;
  // Whether a condition needs the L1 norms of the query projections' rows.
  bool NeedsUtilities() const;
};

// Of a resolved spec of one of the six kinds.
OutcomeFields FieldsOf(const v1::ExperimentSpec& spec);

// How tables name a condition, a target, a stage, positions: the value in lower case ("lowest_frequency"); a
// range of positions "3-17".
std::string ConditionName(v1::PatchCondition::Value condition);
std::string PositionsName(const OutcomeFields& fields);
std::string LowerCase(const std::string& name);

}  // namespace ropelab::experiments
