#include "worker/engine/removal_scores.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/engine/removal_pairs.h"

namespace ropelab::engine {
namespace {

// One run's sums, of the heads that are named: as SlashSums has them, one offset a head. The rows of a block
// are summed in fp32 in their order, blocks of a strip in double, strips in theirs.
class DiagonalSums : public Observer {
 public:
  struct Head {
    int64_t head = 0, offset = 0;  // `head` as the blocks count
  };
  DiagonalSums(std::vector<Head> heads, const SlashRange& range)
      : heads_(std::move(heads)), range_(range), sums_(kStrips * heads_.size()) {}

  void Probabilities(const ProbabilityBlock& block) override {
    for (size_t h = 0; h < heads_.size(); ++h) {
      const int64_t within = heads_[h].head - block.first_head;
      if (within < 0 || within >= block.probabilities.size(0)) continue;
      sums_[block.strip * heads_.size() + h] +=
          Sum(block, block.probabilities.select(0, within), heads_[h].offset);
    }
  }
  double Total(size_t h) const {
    double total = sums_[h];
    for (int64_t strip = 1; strip < kStrips; ++strip) total += sums_[strip * heads_.size() + h];
    return total;
  }

 private:
  // Of the counted entries that the block holds; `rows` is [rows, keys].
  float Sum(const ProbabilityBlock& block, const at::Tensor& rows, int64_t offset) const {
    const int64_t first_key = std::max(range_.skip_first, block.first_key);
    int64_t from = std::max(block.first_row, first_key + offset);
    if (range_.common_rows) from = std::max(from, range_.last_offset + range_.skip_first);
    const int64_t count = block.first_row + rows.size(0) - from;
    if (count <= 0) return 0;
    const at::Tensor diagonal =
        rows.narrow(0, from - block.first_row, count).diagonal(from - offset - block.first_key).to(at::kCPU);
    const float* p = diagonal.data_ptr<float>();
    float sum = 0;
    for (int64_t r = 0; r < count; ++r) sum += p[r * diagonal.stride(0)];
    return sum;
  }

  const std::vector<Head> heads_;
  const SlashRange range_;
  std::vector<double> sums_;  // [kStrips, heads]
};

}  // namespace

RemovalScores::RemovalScores(const formats::ModelConfig& config, std::vector<OffsetHead> heads,
                             std::vector<std::vector<int64_t>> removals, SlashRange range, int64_t block_rows)
    : config_(config),
      heads_(std::move(heads)),
      removals_(std::move(removals)),
      range_(range),
      block_rows_(block_rows),
      group_heads_(config.query_heads / config.kv_heads),
      layers_(static_cast<size_t>(config.layers)) {
  for (size_t h = 0; h < heads_.size(); ++h) {
    LayerHeads& layer = layers_[heads_[h].layer];
    const int64_t group = heads_[h].head / group_heads_;
    if (layer.groups.empty()) layer.first = h;
    if (layer.groups.empty() || layer.groups.back() != group) layer.groups.push_back(group);
    layer.end = h + 1;
    most_groups_ = std::max(most_groups_, layer.groups.size());
  }
}

const RemovalScores::LayerHeads* RemovalScores::Find(int64_t layer) const {
  const LayerHeads& heads = layers_[layer];
  return heads.groups.empty() || removals_.empty() ? nullptr : &heads;
}

absl::Status RemovalScores::StartPrompt(int64_t tokens, at::Device device) {
  const std::vector<double> inv_freq = formats::InverseFrequencies(config_, tokens);
  dimensions_.clear();
  for (const std::vector<int64_t>& pairs : removals_) {
    ROPELAB_ASSIGN_OR_RETURN(const std::vector<int64_t> dimensions, DimensionsOfPairs(pairs, inv_freq));
    dimensions_.push_back(at::tensor(at::ArrayRef<int64_t>(dimensions), at::kLong).to(device));
  }
  sums_.assign(removals_.size() * heads_.size(), 0.0);
  if (tokens == tokens_ || most_groups_ == 0 || removals_.empty()) return absl::OkStatus();
  tokens_ = tokens;
  const auto wide = at::TensorOptions().dtype(at::kFloat).device(device);
  const int64_t groups = static_cast<int64_t>(most_groups_);
  query_pre_ = at::empty({tokens, groups * group_heads_, config_.head_dim}, wide);
  query_rot_ = at::empty_like(query_pre_);
  key_pre_ = at::empty({groups, config_.head_dim, tokens}, wide);
  key_rot_ = at::empty_like(key_pre_);
  return absl::OkStatus();
}

void RemovalScores::Projected(const ProjectedRows& rows) {
  const LayerHeads* layer = Find(rows.layer);
  if (layer == nullptr) return;
  const int64_t count = rows.query_pre.size(0);
  for (size_t slot = 0; slot < layer->groups.size(); ++slot) {
    const int64_t group = layer->groups[slot], place = static_cast<int64_t>(slot);
    const auto keep_query = [&](at::Tensor& to, const at::Tensor& from) {
      to.narrow(0, rows.first_row, count)
          .narrow(1, place * group_heads_, group_heads_)
          .copy_(from.narrow(1, group * group_heads_, group_heads_));
    };
    const auto keep_key = [&](at::Tensor& to, const at::Tensor& from) {
      to.select(0, place).narrow(1, rows.first_row, count).copy_(from.select(1, group).t());
    };
    keep_query(query_pre_, rows.query_pre);
    keep_query(query_rot_, rows.query_rot);
    keep_key(key_pre_, rows.key_pre);
    keep_key(key_rot_, rows.key_rot);
  }
}

bool RemovalScores::Run(const LayerHeads& layer, int64_t index, size_t removal, Attention& attention) {
  const int64_t groups = static_cast<int64_t>(layer.groups.size());
  at::Tensor queries = query_rot_.narrow(1, 0, groups * group_heads_);
  at::Tensor keys = key_rot_.narrow(0, 0, groups);
  std::vector<DiagonalSums::Head> named;
  for (size_t h = layer.first; h < layer.end; ++h) {
    const int64_t group = heads_[h].head / group_heads_;
    const int64_t slot = std::ranges::find(layer.groups, group) - layer.groups.begin();
    named.push_back({slot * group_heads_ + heads_[h].head % group_heads_, heads_[h].offset});
  }
  DiagonalSums sums(std::move(named), range_);
  // The removed columns stand in the place of the rotated ones for this run and are put back after it.
  const at::Tensor& dimensions = dimensions_[removal];
  const at::Tensor query_columns = queries.index_select(2, dimensions);
  const at::Tensor key_columns = keys.index_select(1, dimensions);
  const at::Tensor query_pre = query_pre_.narrow(1, 0, groups * group_heads_);
  const at::Tensor key_pre = key_pre_.narrow(0, 0, groups);
  queries.index_copy_(2, dimensions, query_pre.index_select(2, dimensions));
  keys.index_copy_(1, dimensions, key_pre.index_select(1, dimensions));
  const bool finite =
      attention.Run({index, RuleOf(config_, index), &sums, /*outputs=*/false}, queries, keys, keys);
  queries.index_copy_(2, dimensions, query_columns);
  keys.index_copy_(1, dimensions, key_columns);
  for (size_t h = layer.first; h < layer.end; ++h) {
    sums_[removal * heads_.size() + h] = sums.Total(h - layer.first);
  }
  return finite;
}

absl::Status RemovalScores::FinishLayer(int64_t index, absl::FunctionRef<absl::Status(double share)> done) {
  const LayerHeads* layer = Find(index);
  if (layer == nullptr) return absl::OkStatus();
  const int64_t groups = static_cast<int64_t>(layer->groups.size());
  Attention attention({tokens_, groups * group_heads_, groups, config_.head_dim, block_rows_},
                      query_rot_.device());
  for (size_t removal = 0; removal < removals_.size(); ++removal) {
    if (!Run(*layer, index, removal, attention)) {
      return absl::FailedPreconditionError(
          absl::StrCat("layer ", index, ", removal ", removal + 1,
                       ": an attention logit is NaN or infinite; FLOAT32 or BFLOAT16 reach further than "
                       "FLOAT16"));
    }
    ROPELAB_RETURN_IF_ERROR(done(static_cast<double>(removal + 1) / static_cast<double>(removals_.size())));
  }
  return absl::OkStatus();
}

int64_t RemovalScores::Bytes(const formats::ModelConfig& config, const std::vector<OffsetHead>& heads,
                             int64_t tokens, int64_t block_rows, int threads) {
  const int64_t group_heads = config.query_heads / config.kv_heads;
  int64_t most = 0, groups = 0, layer = -1, group = -1;
  for (const OffsetHead& head : heads) {
    if (head.layer != layer) groups = 0;
    if (head.layer != layer || head.head / group_heads != group) ++groups;
    layer = head.layer;
    group = head.head / group_heads;
    most = std::max(most, groups);
  }
  if (most == 0) return 0;
  // Both forms of queries and keys, and the columns of one removal twice: all of them at most.
  const int64_t vectors = tokens * most * (group_heads + 1) * config.head_dim;
  const int64_t scratch =
      Attention::ScratchBytes({tokens, most * group_heads, most, config.head_dim, block_rows}, threads);
  return 4 * vectors * static_cast<int64_t>(sizeof(float)) + scratch;
}

}  // namespace ropelab::engine
