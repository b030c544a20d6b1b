#include "worker/engine/decode_attention.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <vector>

#include "worker/engine/row_kernels.h"

namespace ropelab::engine {
namespace {

// Below this many multiplications a second thread costs more than it brings.
constexpr int64_t kWorkPerThread = 1 << 17;

}  // namespace

LayerCache::LayerCache(int64_t rows, int64_t kv_heads, int64_t head_dim, int64_t capacity,
                       at::Device device) {
  const auto options = at::TensorOptions().dtype(at::kFloat).device(device);
  keys_ = at::zeros({rows, kv_heads, head_dim, capacity}, options);
  values_ = at::zeros({rows, kv_heads, capacity, head_dim}, options);
}

void LayerCache::Store(int64_t position, const at::Tensor& keys, const at::Tensor& values) {
  keys_.select(3, position).copy_(keys);
  values_.select(2, position).copy_(values);
}

void LayerCache::AttendOnCpu(const at::Tensor& queries, at::Tensor& outputs, int64_t position,
                             const AttentionRule& rule) const {
  const int64_t groups = keys_.size(1), dims = keys_.size(2), capacity = keys_.size(3);
  const int64_t first = rule.FirstKey(position), n = position + 1 - first;
  const int64_t heads = queries.size(1) / groups;  // of a group
  const float* query = queries.data_ptr<float>();
  const float* keys = keys_.data_ptr<float>();
  const float* values = values_.data_ptr<float>();
  float* output = outputs.data_ptr<float>();
  const auto attend = [&](int64_t begin_item, int64_t end_item) {
    std::vector<float> weights(static_cast<size_t>(n)), block(static_cast<size_t>(dims));
    for (int64_t item = begin_item; item < end_item; ++item) {  // a row's KV head
      for (int64_t head = item * heads; head < (item + 1) * heads; ++head) {
        QueryTimesKeys(query + head * dims, keys + item * dims * capacity + first, dims, capacity, n,
                       weights.data());
        CappedSoftmaxRow(weights.data(), n, rule.scale, rule.soft_cap);
        WeightedValues sum(dims, block.data(), output + head * dims);
        sum.Add(weights.data(), values + (item * capacity + first) * dims, n, first);
        sum.Finish();
      }
    }
  };
  const int64_t work = 2 * heads * dims * n;
  at::parallel_for(0, keys_.size(0) * groups, std::max<int64_t>(1, kWorkPerThread / work), attend);
}

at::Tensor LayerCache::Attend(const at::Tensor& queries, int64_t position, const AttentionRule& rule) const {
  if (!queries.is_cpu()) return AttendByOperators(queries, position, rule);
  at::Tensor outputs = at::zeros_like(queries);
  AttendOnCpu(queries, outputs, position, rule);
  return outputs;
}

at::Tensor LayerCache::AttendByOperators(const at::Tensor& queries, int64_t position,
                                         const AttentionRule& rule) const {
  const int64_t first = rule.FirstKey(position), n = position + 1 - first;
  const int64_t rows = keys_.size(0), groups = keys_.size(1), dims = keys_.size(2);
  const at::Tensor grouped = queries.reshape({rows, groups, queries.size(1) / groups, dims});
  at::Tensor logits = at::matmul(grouped, keys_.narrow(3, first, n)) * rule.scale;
  if (rule.soft_cap > 0) logits.div_(rule.soft_cap).tanh_().mul_(rule.soft_cap);
  return at::matmul(at::softmax(logits, -1), values_.narrow(2, first, n)).reshape(queries.sizes());
}

}  // namespace ropelab::engine
