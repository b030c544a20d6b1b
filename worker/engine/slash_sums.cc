#include "worker/engine/slash_sums.h"

#include <algorithm>
#include <array>

#include "worker/engine/row_kernels.h"

namespace ropelab::engine {
namespace {

constexpr int64_t kTile = 1024;  // offsets summed at a time: 4 KiB of fp32 sums stay in L1

}  // namespace

SlashSums::SlashSums(int64_t heads, SlashRange range)
    : heads_(heads), range_(range), sums_(static_cast<size_t>(kStrips * heads * range.offsets())) {}

double* SlashSums::Accumulator(int64_t strip, int64_t head) {
  return sums_.data() + (strip * heads_ + head) * range_.offsets();
}

void SlashSums::Add(const ProbabilityBlock& block) {
  if (block.probabilities.is_cpu()) {
    AddOnCpu(block);
  } else {
    AddByOperators(block);
  }
}

// Within a row i the offsets run against the keys, so sums are kept by u = last_offset - offset: u and the
// key i - last_offset + u rise together.
void SlashSums::AddOnCpu(const ProbabilityBlock& block) {
  const int64_t rows = block.probabilities.size(1), keys = block.probabilities.size(2);
  const int64_t first_counted_key = std::max(range_.skip_first, block.first_key);
  std::array<float, kTile> tile;
  for (int64_t head = 0; head < block.probabilities.size(0); ++head) {
    const float* probabilities = block.probabilities.data_ptr<float>() + head * rows * keys;
    double* sums = Accumulator(block.strip, block.first_head + head);
    for (int64_t begin = 0; begin < range_.offsets(); begin += kTile) {
      const int64_t end = std::min(begin + kTile, range_.offsets());
      tile.fill(0);
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t row = block.first_row + r;
        if (range_.common_rows && row < range_.last_offset + range_.skip_first) continue;
        const int64_t key_at_zero = row - range_.last_offset;  // the key of u = 0
        const int64_t from = std::max(begin, first_counted_key - key_at_zero);
        if (from >= end) continue;
        AddRow(probabilities + r * keys + key_at_zero + from - block.first_key, end - from,
               tile.data() + from - begin);
      }
      for (int64_t u = begin; u < end; ++u) sums[range_.offsets() - 1 - u] += tile[u - begin];
    }
  }
}

// Keys that do not count are cut off, zeros are put in front
// so that every offset of every row has an address, and one strided view turns sub-diagonals into columns.
void SlashSums::AddByOperators(const ProbabilityBlock& block) {
  int64_t rows = block.probabilities.size(1);
  const int64_t heads = block.probabilities.size(0);
  at::Tensor kept = block.probabilities;
  int64_t first_row = block.first_row;
  if (range_.common_rows) {
    const int64_t dropped = std::clamp<int64_t>(range_.last_offset + range_.skip_first - first_row, 0, rows);
    kept = kept.narrow(1, dropped, rows - dropped);
    first_row += dropped;
    rows -= dropped;
  }
  const int64_t first_counted_key = std::max(range_.skip_first, block.first_key);
  const int64_t cut = first_counted_key - block.first_key;
  if (rows == 0 || cut >= kept.size(2)) return;
  kept = kept.narrow(2, cut, kept.size(2) - cut);
  // In the padded row the key i - last_offset of the block's first row is column 0.
  const int64_t front = first_counted_key - (first_row - range_.last_offset);
  const at::Tensor padded = at::constant_pad_nd(kept, {front, 0}).contiguous();
  const int64_t width = padded.size(2);
  const at::Tensor diagonals =
      padded.as_strided({heads, rows, range_.offsets()}, {rows * width, width + 1, 1});
  const at::Tensor sums = diagonals.sum(1).to(at::kDouble).cpu().flip(1).contiguous();
  for (int64_t head = 0; head < heads; ++head) {
    const double* from = sums.data_ptr<double>() + head * range_.offsets();
    double* to = Accumulator(block.strip, block.first_head + head);
    for (int64_t o = 0; o < range_.offsets(); ++o) to[o] += from[o];
  }
}

std::vector<double> SlashSums::Take() {
  const size_t size = static_cast<size_t>(heads_ * range_.offsets());
  std::vector<double> joined(sums_.begin(), sums_.begin() + size);
  for (int64_t strip = 1; strip < kStrips; ++strip) {
    for (size_t i = 0; i < size; ++i) joined[i] += sums_[strip * size + i];
  }
  std::fill(sums_.begin(), sums_.end(), 0.0);
  return joined;
}

}  // namespace ropelab::engine
