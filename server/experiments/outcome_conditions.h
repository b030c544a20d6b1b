// The conditions of one model and seed: what is edited in each, how tables name it, and which are measured.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/experiments/experiment.h"
#include "server/experiments/head_set.h"
#include "server/experiments/outcome_fields.h"
#include "server/experiments/utilities.h"

namespace ropelab::experiments {

// Conditions that are held against each other: at one dose, of one coverage, on one head. What a kind does
// not vary is empty, so a patch has one group.
struct OutcomePoint {
  std::optional<double> coverage = {};
  std::optional<int64_t> layer = {}, head = {};
  std::optional<double> dose = {};  // share of head_dim; empty of a knockout
  bool operator==(const OutcomePoint&) const = default;
};

// One line of the tables.
struct OutcomeCondition {
  std::string name;          // "baseline", "knockout", "lowest_frequency", ..., "random_control"
  std::string control = {};  // "random" or "layer_matched"; empty: the set's own heads
  std::optional<int64_t> draw = {};
  std::optional<int64_t> dims = {};  // per head
  OutcomePoint point = {};
  std::vector<NamedHead> heads = {};  // that are edited
  size_t measured = 0;                // index of what was measured for it
};

struct OutcomeConditions {
  std::optional<std::string> detector;  // of the heads: a metric, "slash" or "imported"; empty: listed
  std::vector<NamedHead> heads;         // the whole set
  int64_t candidates = 0;               // heads that a control may be drawn from
  std::vector<OutcomePoint> points;     // ascending by coverage, layer, head, dose
  // The model as it is first, then point by point: by condition, then by control, each by draw.
  std::vector<OutcomeCondition> list;
  // Each distinct one once, in the order of the list.
  std::vector<v1::Condition> measured;
};

// `utilities`: of the model; null where no condition needs them. FAILED_PRECONDITION: the set has no head, a
// control cannot be drawn, there are too many conditions or they take too many bytes; errors of HeadsOf.
absl::StatusOr<OutcomeConditions> OutcomeConditionsOf(const v1::ExperimentSpec& spec, const Context& context,
                                                      size_t model, uint64_t seed,
                                                      const Utilities* utilities);

// How tables name what found the heads of a set: the metric, "slash" or "imported"; nothing of listed ones.
std::optional<std::string> DetectorOf(const v1::HeadSet& set);

// The best `count` of a set, by its scores; of listed heads the first as they are listed. Errors: HeadsOf's.
absl::StatusOr<std::vector<NamedHead>> BestHeadsOf(const v1::HeadSet& set, int64_t count,
                                                   const Context& context, const std::string& model,
                                                   int64_t seed);

}  // namespace ropelab::experiments
