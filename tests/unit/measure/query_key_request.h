// Requests for a QueryKeyProfile of given prompts.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "ropelab/v1/measurement.pb.h"

namespace ropelab::measure {

inline v1::Measurement QueryKeyRequest(const std::vector<std::vector<int32_t>>& prompts, double energy,
                                       v1::HiddenStage::Value stage) {
  v1::Measurement measurement;
  v1::QueryKeyProfile& profile = *measurement.mutable_query_key_profile();
  profile.mutable_prompts()->mutable_samples()->set_count(static_cast<int64_t>(prompts.size()));
  for (const auto& ids : prompts) {
    profile.mutable_prompts()->mutable_given()->add_prompts()->mutable_ids()->Add(ids.begin(), ids.end());
  }
  profile.set_energy(energy);
  profile.set_hidden_stage(stage);
  return measurement;
}

// (layer, head) each.
inline void NameHeads(v1::Measurement& measurement, const std::vector<std::pair<int, int>>& heads,
                      int64_t rows, v1::HiddenView::Value view) {
  v1::QueryKeyProfile& profile = *measurement.mutable_query_key_profile();
  for (const auto& [layer, head] : heads) {
    v1::MeasuredHead& named = *profile.add_heads();
    named.set_layer(layer);
    named.set_head(head);
  }
  profile.set_view_rows(rows);
  profile.set_hidden_view(view);
}

}  // namespace ropelab::measure
