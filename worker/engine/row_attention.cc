#include "worker/engine/row_attention.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "worker/engine/row_kernels.h"

namespace ropelab::engine {
namespace {

// Below this many multiplications a second thread costs more than it brings.
constexpr int64_t kWorkPerThread = 1 << 17;

// What a position sees: [first, tokens) of the prompt, then [after, index] of what was generated.
struct Seen {
  Seen(const AttentionRule& rule, int64_t tokens, int64_t index)
      : first(std::min(rule.FirstKey(tokens + index), tokens)),
        in_prompt(tokens - first),
        after(std::max<int64_t>(0, rule.FirstKey(tokens + index) - tokens)),
        generated(index + 1 - after) {}
  int64_t first, in_prompt, after, generated;
};

}  // namespace

RowAttention::RowAttention(std::vector<AttendedRow> rows, const formats::ModelConfig& config, int64_t tokens,
                           int64_t capacity, at::Device device)
    : rows_(std::move(rows)),
      query_heads_(config.query_heads),
      kv_heads_(config.kv_heads),
      tokens_(tokens),
      own_keys_(rows_.size()) {
  const auto options = at::TensorOptions().dtype(at::kFloat).device(device);
  const int64_t count = static_cast<int64_t>(rows_.size());
  keys_ = at::zeros({count, kv_heads_, config.head_dim, capacity}, options);
  values_ = at::zeros({count, kv_heads_, capacity, config.head_dim}, options);
  for (size_t row = 0; row < rows_.size(); ++row) {
    const int64_t own = static_cast<int64_t>(rows_[row].own_heads.size());
    if (own > 0) own_keys_[row] = at::zeros({own, config.head_dim, capacity}, options);
  }
}

void RowAttention::Store(int64_t index, const at::Tensor& keys, const at::Tensor& values,
                         const std::vector<at::Tensor>& own_keys) {
  keys_.select(3, index).copy_(keys);
  values_.select(2, index).copy_(values);
  for (size_t row = 0; row < rows_.size(); ++row) {
    if (own_keys_[row].defined()) own_keys_[row].select(2, index).copy_(own_keys[row].select(0, 0));
  }
}

RowAttention::HeadKeys RowAttention::KeysOf(int64_t row, int64_t head) const {
  const AttendedRow& seen = rows_[row];
  const auto own = std::ranges::lower_bound(seen.own_heads, head);
  if (own != seen.own_heads.end() && *own == head) {
    const int64_t place = own - seen.own_heads.begin();
    return {seen.prompt.own_keys.select(0, place), own_keys_[row].select(0, place)};
  }
  const int64_t group = head * kv_heads_ / query_heads_;
  return {seen.prompt.keys.select(0, group), keys_.select(0, row).select(0, group)};
}

at::Tensor RowAttention::AttendOnCpu(const at::Tensor& queries, int64_t index, const AttentionRule& rule,
                                     const std::vector<bool>& live, bool& finite) const {
  const int64_t dims = queries.size(2), capacity = keys_.size(3), heads = query_heads_ / kv_heads_;
  const Seen seen(rule, tokens_, index);
  at::Tensor outputs = at::zeros_like(queries);
  const float* query = queries.data_ptr<float>();
  const float* new_values = values_.data_ptr<float>();
  float* output = outputs.data_ptr<float>();
  std::atomic<bool> all_finite{true};
  const auto attend = [&](int64_t begin, int64_t end) {
    std::vector<float> weights(static_cast<size_t>(seen.in_prompt + seen.generated));
    std::vector<float> block(static_cast<size_t>(dims));
    for (int64_t item = begin; item < end; ++item) {  // a row's KV head
      const int64_t row = item / kv_heads_, group = item % kv_heads_;
      if (!live[row]) continue;
      const float* values = rows_[row].prompt.values.data_ptr<float>() + group * tokens_ * dims;
      for (int64_t head = group * heads; head < (group + 1) * heads; ++head) {
        const int64_t place = (row * query_heads_ + head) * dims;
        const HeadKeys keys = KeysOf(row, head);
        QueryTimesKeys(query + place, keys.prompt.data_ptr<float>() + seen.first, dims, tokens_,
                       seen.in_prompt, weights.data());
        QueryTimesKeys(query + place, keys.generated.data_ptr<float>() + seen.after, dims, capacity,
                       seen.generated, weights.data() + seen.in_prompt);
        if (!CappedSoftmaxRow(weights.data(), seen.in_prompt + seen.generated, rule.scale, rule.soft_cap))
          all_finite = false;
        WeightedValues sum(dims, block.data(), output + place);
        sum.Add(weights.data(), values + seen.first * dims, seen.in_prompt, seen.first);
        sum.Add(weights.data() + seen.in_prompt, new_values + (item * capacity + seen.after) * dims,
                seen.generated, tokens_ + seen.after);
        sum.Finish();
      }
    }
  };
  const int64_t work = 2 * heads * dims * (seen.in_prompt + seen.generated);
  at::parallel_for(0, static_cast<int64_t>(rows_.size()) * kv_heads_,
                   std::max<int64_t>(1, kWorkPerThread / work), attend);
  finite = finite && all_finite;
  return outputs;
}

at::Tensor RowAttention::AttendByOperators(const at::Tensor& queries, int64_t index,
                                           const AttentionRule& rule, const std::vector<bool>& live,
                                           bool& finite) const {
  const Seen seen(rule, tokens_, index);
  const int64_t dims = queries.size(2), keys_seen = seen.in_prompt + seen.generated;
  const auto joined = [&](const at::Tensor& prompt, const at::Tensor& generated, int64_t along) {
    return at::cat({prompt.narrow(along, seen.first, seen.in_prompt),
                    generated.narrow(along, seen.after, seen.generated)},
                   along);
  };
  at::Tensor outputs = at::zeros_like(queries);
  for (int64_t row = 0; row < static_cast<int64_t>(rows_.size()); ++row) {
    if (!live[row]) continue;
    const PromptKeys& prompt = rows_[row].prompt;
    const at::Tensor query = queries.select(0, row);
    const at::Tensor grouped = query.view({kv_heads_, query_heads_ / kv_heads_, dims});
    at::Tensor logits = at::bmm(grouped, joined(prompt.keys, keys_.select(0, row), 2));
    for (size_t own = 0; own < rows_[row].own_heads.size(); ++own) {
      const int64_t head = rows_[row].own_heads[own];
      const HeadKeys keys = KeysOf(row, head);
      logits.view({query_heads_, keys_seen})
          .narrow(0, head, 1)
          .copy_(at::mm(query.narrow(0, head, 1), joined(keys.prompt, keys.generated, 1)));
    }
    logits.mul_(rule.scale);
    const at::Tensor broken = logits - logits;  // 0, or NaN where a cap would hide an infinite logit
    if (rule.soft_cap > 0) logits.div_(rule.soft_cap).tanh_().mul_(rule.soft_cap);
    const at::Tensor weights = at::softmax(logits + broken, 2);
    outputs.select(0, row).copy_(
        at::bmm(weights, joined(prompt.values, values_.select(0, row), 1)).view({query_heads_, dims}));
  }
  finite = finite && at::isfinite(outputs).all().item<bool>();
  return outputs;
}

at::Tensor RowAttention::Attend(const at::Tensor& queries, int64_t index, const AttentionRule& rule,
                                const std::vector<bool>& live, bool& finite) const {
  return queries.is_cpu() ? AttendOnCpu(queries, index, rule, live, finite)
                          : AttendByOperators(queries, index, rule, live, finite);
}

int64_t RowAttention::Bytes(const formats::ModelConfig& config, int64_t rows, int64_t capacity) {
  return 2 * rows * config.kv_heads * config.head_dim * capacity * static_cast<int64_t>(sizeof(float));
}

}  // namespace ropelab::engine
