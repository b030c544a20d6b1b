#include "worker/engine/layer_edits.h"

#include <algorithm>

#include "worker/engine/layer_ops.h"
#include "worker/engine/removal_pairs.h"

namespace ropelab::engine {
namespace {

// Rows [from, from + count) of a block are at positions first..last; none: count is 0.
struct Reach {
  int64_t from = 0, count = 0;
};
Reach ReachOf(int64_t first, int64_t last, int64_t block_first, int64_t rows) {
  const int64_t from = std::max(first, block_first);
  const int64_t to = std::min(last, block_first + rows - 1);
  return {from - block_first, std::max<int64_t>(0, to - from + 1)};
}

at::Tensor Indices(const std::vector<int64_t>& values, at::Device device) {
  return at::tensor(at::ArrayRef<int64_t>(values), at::kLong).to(device);
}

bool ChangesNothing(const HeadEdit& edit) {
  if (edit.kind == EditKind::kZeroHead) return false;
  return edit.dims.empty() || (edit.kind == EditKind::kScaleDims && edit.factor == 1.0f);
}

}  // namespace

bool LayerEdits::Scaling::operator==(const Scaling& other) const {
  return head == other.head && factor == other.factor && first == other.first && last == other.last &&
         at::equal(dims, other.dims);
}

void LayerEdits::AddScaling(const HeadEdit& edit, const formats::ModelConfig& config, at::Device device) {
  Stage& stage = stages_[static_cast<size_t>(edit.stage)];
  Scaling scaling{edit.head, Indices({edit.dims.begin(), edit.dims.end()}, device), edit.factor,
                  edit.first_position, edit.last_position};
  if (edit.target != EditTarget::kKey) stage.query.push_back(scaling);
  if (edit.target == EditTarget::kQuery) return;
  scaling.head = edit.head * config.kv_heads / config.query_heads;
  // Heads of one group that name the same edit make one of it. One head that names it twice means it twice.
  const auto same = [&](const KeyScaling& other) { return other.scaling == scaling; };
  const int64_t by_this = std::ranges::count_if(
      stage.named, [&](const KeyScaling& other) { return same(other) && other.named_by == edit.head; });
  const int64_t applied =
      std::ranges::count_if(stage.key, [&](const Scaling& other) { return other == scaling; });
  stage.named.push_back({scaling, edit.head});
  if (by_this == applied) stage.key.push_back(scaling);
}

void LayerEdits::AddUnrotation(const HeadEdit& edit, const formats::ModelConfig& config,
                               const std::vector<double>& inv_freq, at::Device device) {
  const std::vector<int64_t> places = PairsByFrequency(inv_freq);
  std::vector<int64_t> dims;
  for (const int32_t pair : edit.dims) dims.push_back(places[pair]);
  for (size_t i = 0; i < edit.dims.size(); ++i) dims.push_back(dims[i] + config.head_dim / 2);
  const int64_t kv_head = edit.head * config.kv_heads / config.query_heads;
  unrotations_.push_back(
      {edit.head, kv_head, Indices(dims, device), edit.first_position, edit.last_position});
  const auto at = std::ranges::lower_bound(own_heads_, edit.head);
  const auto place = at - own_heads_.begin();
  if (at != own_heads_.end() && *at == edit.head) {
    own_from_[place] = std::min(own_from_[place], edit.first_position);
    return;
  }
  own_heads_.insert(at, edit.head);
  own_from_.insert(own_from_.begin() + place, edit.first_position);
  own_groups_.insert(own_groups_.begin() + place, kv_head);
}

void LayerEdits::Add(const HeadEdit& edit, const formats::ModelConfig& config,
                     const std::vector<double>& inv_freq, at::ScalarType activations, at::Device device) {
  activations_ = activations;
  if (ChangesNothing(edit)) return;
  switch (edit.kind) {
    case EditKind::kZeroHead:
      zeroings_.push_back({edit.head, edit.first_position, edit.last_position});
      break;
    case EditKind::kScaleDims:
      AddScaling(edit, config, device);
      break;
    case EditKind::kUnrotate:
      AddUnrotation(edit, config, inv_freq, device);
      break;
  }
}

void LayerEdits::ApplyOne(const Scaling& scaling, int64_t place, const at::Tensor& rows,
                          int64_t first) const {
  const Reach reach = ReachOf(scaling.first, scaling.last, first, rows.size(0));
  if (reach.count == 0) return;
  at::Tensor head = rows.narrow(0, reach.from, reach.count).select(1, place);
  if (scaling.factor == 0) {
    head.index_fill_(1, scaling.dims, 0);
    return;
  }
  const at::Tensor scaled = head.index_select(1, scaling.dims).to(at::kFloat) * scaling.factor;
  head.index_copy_(1, scaling.dims, RoundedTo(activations_, scaled).to(rows.scalar_type()));
}

void LayerEdits::Apply(const std::vector<Scaling>& scalings, const at::Tensor& rows, int64_t first) const {
  for (const Scaling& scaling : scalings) ApplyOne(scaling, scaling.head, rows, first);
}

void LayerEdits::ApplyStage(EditStage stage, const at::Tensor& query, const at::Tensor& key,
                            int64_t first) const {
  Apply(stages_[static_cast<size_t>(stage)].query, query, first);
  Apply(stages_[static_cast<size_t>(stage)].key, key, first);
}

void LayerEdits::AtProjection(const at::Tensor& query, const at::Tensor& key, int64_t first) const {
  ApplyStage(EditStage::kProjection, query, key, first);
}

void LayerEdits::BeforeRope(const at::Tensor& query, const at::Tensor& key, int64_t first) const {
  ApplyStage(EditStage::kPreRope, query, key, first);
}

at::Tensor LayerEdits::AfterRope(const at::Tensor& query_pre, const at::Tensor& key_pre,
                                 const at::Tensor& query_rot, const at::Tensor& key_rot,
                                 int64_t first) const {
  at::Tensor own_keys;
  if (!own_heads_.empty()) own_keys = key_rot.index_select(1, Indices(own_groups_, key_rot.device()));
  for (const Unrotation& edit : unrotations_) {
    const Reach reach = ReachOf(edit.first, edit.last, first, query_rot.size(0));
    if (reach.count == 0) continue;
    const auto unrotate = [&](const at::Tensor& rotated, int64_t to, const at::Tensor& pre, int64_t from) {
      const at::Tensor plain = pre.narrow(0, reach.from, reach.count).select(1, from);
      rotated.narrow(0, reach.from, reach.count)
          .select(1, to)
          .index_copy_(1, edit.dims, plain.index_select(1, edit.dims));
    };
    unrotate(query_rot, edit.head, query_pre, edit.head);
    const int64_t own = std::ranges::lower_bound(own_heads_, edit.head) - own_heads_.begin();
    unrotate(own_keys, own, key_pre, edit.kv_head);
  }
  const Stage& after = stages_[static_cast<size_t>(EditStage::kPostRope)];
  ApplyStage(EditStage::kPostRope, query_rot, key_rot, first);
  for (size_t own = 0; own < own_heads_.size(); ++own) {
    for (const Scaling& scaling : after.key) {
      if (scaling.head == own_groups_[own]) ApplyOne(scaling, static_cast<int64_t>(own), own_keys, first);
    }
  }
  return own_keys;
}

void LayerEdits::AtOutput(const at::Tensor& heads, int64_t first) const {
  for (const Zeroing& edit : zeroings_) {
    const Reach reach = ReachOf(edit.first, edit.last, first, heads.size(0));
    if (reach.count > 0) heads.narrow(0, reach.from, reach.count).select(1, edit.head).zero_();
  }
}

EditsByLayer ReadyEdits(const HeadEdits& edits, const formats::ModelConfig& config,
                        const std::vector<double>& inv_freq, at::ScalarType activations, at::Device device) {
  EditsByLayer ready;
  for (const HeadEdit& edit : edits) {
    if (ChangesNothing(edit)) continue;
    ready[edit.layer].Add(edit, config, inv_freq, activations, device);
  }
  return ready;
}

}  // namespace ropelab::engine
