#include "worker/engine/attention.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "worker/engine/causal_softmax.h"
#include "worker/engine/matrix_kernels.h"

namespace ropelab::engine {
namespace {

// Strips in the order in which threads take them: a later strip has the longer rows, so long and short ones
// alternate.
constexpr std::array<int64_t, kStrips> kStripOrder = {0, 7, 1, 6, 2, 5, 3, 4};

// The first elements of a flat buffer as a matrix.
at::Tensor Matrix(const at::Tensor& buffer, int64_t rows, int64_t columns) {
  return buffer.narrow(0, 0, rows * columns).view({rows, columns});
}

ConstFloatRows RowsOf(const at::Tensor& matrix) {
  return {matrix.data_ptr<float>(), matrix.stride(0)};
}

// queries [rows, D] times keys [D, width]; on the CPU as decoding does.
void MultiplyKeys(const at::Tensor& queries, const at::Tensor& keys, at::Tensor& logits) {
  if (!queries.is_cpu()) {
    at::mm_out(logits, queries, keys);
    return;
  }
  RowsTimesMatrix(RowsOf(queries), queries.size(0), queries.size(1), RowsOf(keys), keys.size(1),
                  {logits.data_ptr<float>(), logits.stride(0)});
}

// probabilities [rows, width] times values [width, D] of the positions from `first` on; as above.
void MultiplyValues(const at::Tensor& probabilities, const at::Tensor& values, int64_t first,
                    at::Tensor& outputs) {
  if (!values.is_cpu()) {
    at::mm_out(outputs, probabilities, values);
    return;
  }
  RowsTimesMatrixInBlocks(RowsOf(probabilities), probabilities.size(0), probabilities.size(1), RowsOf(values),
                          values.size(1), first, {outputs.data_ptr<float>(), outputs.stride(0)});
}

}  // namespace

int64_t Attention::ScratchBytes(const AttentionShape& shape, int threads) {
  const int64_t heads = shape.query_heads / shape.kv_heads;
  const int64_t rows = std::min(shape.block_rows, shape.tokens);
  return threads * heads * rows * (shape.tokens + 2 * shape.head_dim) * static_cast<int64_t>(sizeof(float));
}

Attention::Attention(const AttentionShape& shape, at::Device device) : shape_(shape) {
  shape_.block_rows = std::min(shape.block_rows, shape.tokens);
  const int64_t rows = shape_.block_rows * (shape.query_heads / shape.kv_heads);
  const auto options = at::TensorOptions().dtype(at::kFloat).device(device);
  scratch_.resize(device.is_cpu() ? at::get_num_threads() : 1);
  for (Scratch& scratch : scratch_) {
    scratch.logits = at::empty({rows * shape.tokens}, options);
    scratch.queries = at::empty({rows * shape.head_dim}, options);
    scratch.outputs = at::empty({rows * shape.head_dim}, options);
  }
}

void Attention::ReplaceOwn(const OwnKeys& own, int64_t group, int64_t first_row, int64_t first_key,
                           const at::Tensor& packed, at::Tensor& logits) const {
  const int64_t heads = shape_.query_heads / shape_.kv_heads;
  const int64_t rows = logits.size(0) / heads, width = logits.size(1);
  for (size_t i = 0; i < own.heads.size(); ++i) {
    const int64_t place = own.heads[i] - group * heads;
    if (place < 0 || place >= heads || own.from[i] >= first_row + rows) continue;
    const int64_t skipped = std::max<int64_t>(0, own.from[i] - first_row);  // these keep the group's bits
    at::Tensor head = logits.narrow(0, place * rows + skipped, rows - skipped);
    const at::Tensor keys = own.keys.select(0, static_cast<int64_t>(i)).narrow(1, first_key, width);
    MultiplyKeys(packed.narrow(0, place * rows + skipped, rows - skipped), keys, head);
  }
}

bool Attention::RunBlock(const Layer& layer, int64_t group, int64_t strip, int64_t first_row,
                         Scratch& scratch, at::Tensor& queries, const at::Tensor& keys,
                         const at::Tensor& values) {
  const int64_t heads = shape_.query_heads / shape_.kv_heads, dims = shape_.head_dim;
  const int64_t rows = std::min(shape_.block_rows, shape_.tokens - first_row);
  const int64_t first_key = layer.rule.FirstKey(first_row);
  const int64_t width = first_row + rows - first_key;

  // [rows, heads, D] of the queries, turned to head-major rows for one product per group.
  at::Tensor block = queries.narrow(0, first_row, rows).narrow(1, group * heads, heads).transpose(0, 1);
  at::Tensor packed = Matrix(scratch.queries, heads * rows, dims);
  packed.view({heads, rows, dims}).copy_(block);
  at::Tensor logits = Matrix(scratch.logits, heads * rows, width);
  MultiplyKeys(packed, keys.select(0, group).narrow(1, first_key, width), logits);
  if (layer.own_keys != nullptr) ReplaceOwn(*layer.own_keys, group, first_row, first_key, packed, logits);

  at::Tensor probabilities = logits.view({heads, rows, width});
  const bool finite = CausalSoftmax(probabilities, {first_row, first_key, layer.rule.window},
                                    layer.rule.scale, layer.rule.soft_cap);
  if (layer.observer != nullptr) {
    layer.observer->Probabilities({layer.layer, strip, group * heads, first_row, first_key, probabilities});
  }
  if (layer.outputs) {
    at::Tensor outputs = Matrix(scratch.outputs, heads * rows, dims);
    MultiplyValues(logits, values.select(0, group).narrow(0, first_key, width), first_key, outputs);
    block.copy_(outputs.view({heads, rows, dims}));
  }
  return finite;
}

bool Attention::Run(const Layer& layer, at::Tensor& queries, const at::Tensor& keys,
                    const at::Tensor& values) {
  std::atomic<bool> finite{true};
  const auto run_items = [&](int64_t begin, int64_t end) {
    Scratch& scratch = scratch_[at::get_thread_num()];
    for (int64_t item = begin; item < end; ++item) {
      const int64_t strip = kStripOrder[item / shape_.kv_heads], group = item % shape_.kv_heads;
      for (int64_t row = strip * shape_.block_rows; row < shape_.tokens; row += kStrips * shape_.block_rows) {
        if (!RunBlock(layer, group, strip, row, scratch, queries, keys, values)) finite = false;
      }
    }
  };
  const int64_t items = kStrips * shape_.kv_heads;
  if (queries.is_cpu()) {
    at::parallel_for(0, items, 1, run_items);
  } else {
    run_items(0, items);
  }
  return finite;
}

}  // namespace ropelab::engine
