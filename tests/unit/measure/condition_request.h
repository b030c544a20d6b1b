// Requests for ConditionOutcomes of given prompts under low-rank edits.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "ropelab/v1/measurement.pb.h"

namespace ropelab::measure {

constexpr auto kQuery = v1::Matrix::QUERY;
constexpr auto kKey = v1::Matrix::KEY;

// `heads`: (layer, head) each.
inline v1::Intervention LowRank(const std::vector<std::pair<int, int>>& heads, int64_t rank,
                                std::initializer_list<v1::Matrix::Value> matrices) {
  v1::Intervention intervention;
  v1::LowRankEdit& edit = *intervention.mutable_low_rank();
  for (const auto& [layer, head] : heads) {
    v1::Head& named = *edit.mutable_heads()->mutable_list()->add_head();
    named.set_layer(layer);
    named.set_head(head);
  }
  edit.set_rank(rank);
  for (const auto matrix : matrices) edit.add_matrices(matrix);
  return intervention;
}

inline v1::Condition ConditionOf(const std::vector<v1::Intervention>& edits) {
  v1::Condition condition;
  for (const v1::Intervention& edit : edits) *condition.add_interventions() = edit;
  return condition;
}

inline v1::Measurement ConditionRequest(const std::vector<std::vector<int32_t>>& prompts,
                                        const std::vector<v1::Condition>& conditions) {
  v1::Measurement measurement;
  v1::ConditionOutcomes& request = *measurement.mutable_condition_outcomes();
  request.mutable_prompts()->mutable_samples()->set_count(static_cast<int64_t>(prompts.size()));
  for (const auto& ids : prompts) {
    request.mutable_prompts()->mutable_given()->add_prompts()->mutable_ids()->Add(ids.begin(), ids.end());
  }
  for (const v1::Condition& condition : conditions) *request.add_conditions() = condition;
  return measurement;
}

}  // namespace ropelab::measure
