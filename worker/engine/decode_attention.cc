#include "worker/engine/decode_attention.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <vector>

#include "worker/engine/row_kernels.h"

namespace ropelab::engine {
namespace {

// Below this many multiplications a second thread costs more than it brings.
constexpr int64_t kWorkPerThread = 1 << 17;

int64_t FirstKey(int64_t position, int64_t window) {
  return window > 0 ? std::max<int64_t>(0, position + 1 - window) : 0;
}

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

void LayerCache::AttendOnCpu(const at::Tensor& queries, at::Tensor& outputs, int64_t first, int64_t end,
                             double scale) const {
  const int64_t groups = keys_.size(1), dims = keys_.size(2), capacity = keys_.size(3), n = end - first;
  const int64_t heads = queries.size(1) / groups;  // of a group
  const float* query = queries.data_ptr<float>();
  const float* keys = keys_.data_ptr<float>();
  const float* values = values_.data_ptr<float>();
  float* output = outputs.data_ptr<float>();
  const auto attend = [&](int64_t begin_item, int64_t end_item) {
    std::vector<float> weights(static_cast<size_t>(n));
    for (int64_t item = begin_item; item < end_item; ++item) {  // a row's KV head
      for (int64_t head = item * heads; head < (item + 1) * heads; ++head) {
        QueryTimesKeys(query + head * dims, keys + item * dims * capacity + first, dims, capacity, n,
                       weights.data());
        SoftmaxRow(weights.data(), n, static_cast<float>(scale));
        WeightsTimesValues(weights.data(), values + (item * capacity + first) * dims, dims, n,
                           output + head * dims);
      }
    }
  };
  const int64_t work = 2 * heads * dims * n;
  at::parallel_for(0, keys_.size(0) * groups, std::max<int64_t>(1, kWorkPerThread / work), attend);
}

at::Tensor LayerCache::Attend(const at::Tensor& queries, int64_t position, int64_t window,
                              double scale) const {
  if (!queries.is_cpu()) return AttendByOperators(queries, position, window, scale);
  at::Tensor outputs = at::empty_like(queries);
  AttendOnCpu(queries, outputs, FirstKey(position, window), position + 1, scale);
  return outputs;
}

at::Tensor LayerCache::AttendByOperators(const at::Tensor& queries, int64_t position, int64_t window,
                                         double scale) const {
  const int64_t first = FirstKey(position, window), n = position + 1 - first;
  const int64_t rows = keys_.size(0), groups = keys_.size(1), dims = keys_.size(2);
  const at::Tensor grouped = queries.reshape({rows, groups, queries.size(1) / groups, dims});
  const at::Tensor logits = at::matmul(grouped, keys_.narrow(3, first, n)) * scale;
  return at::matmul(at::softmax(logits, -1), values_.narrow(2, first, n)).reshape(queries.sizes());
}

}  // namespace ropelab::engine
