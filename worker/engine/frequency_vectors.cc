#include "worker/engine/frequency_vectors.h"

#include <algorithm>

namespace ropelab::engine {

FrequencyVectors::FrequencyVectors(const formats::ModelConfig& config, std::vector<NamedHead> heads,
                                   bool before_rope)
    : head_dim_(config.head_dim),
      group_heads_(config.query_heads / config.kv_heads),
      heads_(std::move(heads)),
      before_rope_(before_rope),
      ranges_(static_cast<size_t>(config.layers)),
      slots_(heads_.size()) {
  for (size_t h = 0; h < heads_.size(); ++h) {
    Range& range = ranges_[heads_[h].layer];
    if (range.end == 0) {
      range.first = h;
    } else {
      const bool same_group = heads_[h - 1].head / group_heads_ == heads_[h].head / group_heads_;
      slots_[h] = slots_[h - 1] + (same_group ? 0 : 1);
    }
    range.end = h + 1;
    most_heads_ = std::max(most_heads_, static_cast<int64_t>(range.end - range.first));
    most_groups_ = std::max(most_groups_, slots_[h] + 1);
  }
}

void FrequencyVectors::StartPrompt(int64_t tokens) {
  if (tokens == tokens_) return;
  tokens_ = tokens;
  const auto make = [&](Kept& kept) {
    kept = {};  // before the new ones are there
    kept.queries = at::empty({most_heads_, head_dim_, tokens}, at::kFloat);
    kept.keys = at::empty({most_groups_, head_dim_, tokens}, at::kFloat);
  };
  make(rotated_);
  if (before_rope_) make(before_);
}

void FrequencyVectors::Projected(const ProjectedRows& rows) {
  const Range& range = ranges_[rows.layer];
  if (range.end == range.first) return;
  Keep(rotated_, range, rows.first_row, rows.query_rot, rows.key_rot);
  if (before_rope_) Keep(before_, range, rows.first_row, rows.query_pre, rows.key_pre);
}

void FrequencyVectors::Keep(Kept& kept, const Range& range, int64_t first_row, const at::Tensor& query,
                            const at::Tensor& key) const {
  const int64_t rows = query.size(0);
  for (size_t h = range.first; h < range.end; ++h) {
    const int64_t place = static_cast<int64_t>(h - range.first), head = heads_[h].head;
    kept.queries.select(0, place).narrow(1, first_row, rows).copy_(query.select(1, head).t());
    if (h > range.first && slots_[h] == slots_[h - 1]) continue;
    kept.keys.select(0, slots_[h]).narrow(1, first_row, rows).copy_(key.select(1, head / group_heads_).t());
  }
}

FrequencyVectors::Vectors FrequencyVectors::Of(const Kept& kept, size_t place) const {
  const Range& range = ranges_[heads_[place].layer];
  return {kept.queries.select(0, static_cast<int64_t>(place - range.first)),
          kept.keys.select(0, slots_[place])};
}

int64_t FrequencyVectors::Bytes(const formats::ModelConfig& config, const std::vector<NamedHead>& heads,
                                int64_t tokens, bool before_rope) {
  const FrequencyVectors vectors(config, heads, before_rope);
  return (before_rope ? 2 : 1) * (vectors.most_heads_ + vectors.most_groups_) * config.head_dim * tokens *
         static_cast<int64_t>(sizeof(float));
}

}  // namespace ropelab::engine
