#include "worker/engine/map_sums.h"

#include <algorithm>
#include <limits>

namespace ropelab::engine {

MapGrid::MapGrid(int64_t tokens, int64_t size) : tokens_(tokens), cells_(std::min(size, tokens)) {}

int64_t MapGrid::CausalEntries(int64_t row_cell, int64_t key_cell) const {
  const int64_t rows = FirstRow(row_cell + 1) - FirstRow(row_cell);
  if (key_cell < row_cell) return rows * (FirstRow(key_cell + 1) - FirstRow(key_cell));
  return key_cell == row_cell ? rows * (rows + 1) / 2 : 0;
}

MapSums::MapSums(MapGrid grid, size_t most_heads)
    : grid_(grid), most_heads_(most_heads), sums_(kStrips * most_heads * entries()) {}

void MapSums::Start(std::vector<int64_t> heads) {
  heads_ = std::move(heads);
  if (!heads_.empty()) std::ranges::fill(sums_, 0.0);
}

// `rows`: the block's rows of one head. `to`: its cells, then its sub-diagonals.
void MapSums::AddRows(const float* rows, int64_t count, int64_t keys, const ProbabilityBlock& block,
                      double* to) const {
  double* diagonals = to + grid_.cells() * grid_.cells();
  for (int64_t r = 0; r < count; ++r) {
    const int64_t row = block.first_row + r;
    const float* p = rows + r * keys;  // of key first_key + c
    double* cells = to + grid_.CellOf(row) * grid_.cells();
    for (int64_t key = block.first_key; key <= row;) {
      const int64_t cell = grid_.CellOf(key);
      const int64_t end = std::min(row + 1, grid_.FirstRow(cell + 1));
      double sum = 0;
      for (; key < end; ++key) {
        const double probability = p[key - block.first_key];
        sum += probability;
        diagonals[row - key] += probability;
      }
      cells[cell] += sum;
    }
  }
}

void MapSums::Add(const ProbabilityBlock& block) {
  for (size_t place = 0; place < heads_.size(); ++place) {
    const int64_t within = heads_[place] - block.first_head;
    if (within < 0 || within >= block.probabilities.size(0)) continue;
    const at::Tensor rows = block.probabilities.select(0, within).to(at::kCPU).contiguous();
    AddRows(rows.data_ptr<float>(), rows.size(0), rows.size(1), block,
            sums_.data() + (block.strip * most_heads_ + place) * entries());
  }
}

MapSums::Map MapSums::Take(size_t place) const {
  const int64_t cells = grid_.cells();
  std::vector<double> sums(entries());
  for (size_t strip = 0; strip < kStrips; ++strip) {
    const double* from = sums_.data() + (strip * most_heads_ + place) * entries();
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += from[i];
  }
  Map map;
  for (int64_t i = 0; i < cells; ++i) {
    for (int64_t j = 0; j < cells; ++j) {
      const int64_t count = grid_.CausalEntries(i, j);
      map.cells.push_back(count > 0 ? sums[i * cells + j] / static_cast<double>(count)
                                    : std::numeric_limits<double>::quiet_NaN());
    }
  }
  for (int64_t offset = 0; offset < grid_.tokens(); ++offset) {
    map.diagonals.push_back(sums[cells * cells + offset] / static_cast<double>(grid_.tokens() - offset));
  }
  return map;
}

}  // namespace ropelab::engine
