// Mean attention maps of named heads: each prompt's probabilities summed into at most size x size cells, and
// along every sub-diagonal (EXPERIMENTS.md 1).
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "worker/engine/observer.h"

namespace ropelab::engine {

// Where the rows (and keys) of a prompt of `tokens` fall: row i in cell floor(i * size / tokens), or in its
// own cell where tokens <= size.
class MapGrid {
 public:
  MapGrid(int64_t tokens, int64_t size);

  int64_t tokens() const { return tokens_; }
  int64_t cells() const { return cells_; }  // per side: min(size, tokens)
  int64_t CellOf(int64_t row) const { return row * cells_ / tokens_; }
  int64_t FirstRow(int64_t cell) const { return (cell * tokens_ + cells_ - 1) / cells_; }
  // Entries (i, j), j <= i, of a cell; 0 above the diagonal of cells.
  int64_t CausalEntries(int64_t row_cell, int64_t key_cell) const;

 private:
  int64_t tokens_, cells_;
};

// Accumulators of one layer's named heads, reused for the next. Memory: 8 * kStrips * heads * (cells^2 +
// tokens) bytes.
class MapSums {
 public:
  MapSums(MapGrid grid, size_t most_heads);

  // The heads that the blocks to come are summed for.
  void Start(std::vector<int64_t> heads);
  // As Observer::Probabilities. Everything is summed in double.
  void Add(const ProbabilityBlock& block);

  struct Map {
    std::vector<double> cells;      // [cells, cells]: mean over the cell's causal entries; NaN: it has none
    std::vector<double> diagonals;  // [tokens]: mean over all entries of sub-diagonal 0, 1, ...
  };
  // Of the head at this place of Start's list, for one prompt: strips are joined in their order.
  Map Take(size_t place) const;

  const MapGrid& grid() const { return grid_; }

 private:
  void AddRows(const float* rows, int64_t count, int64_t keys, const ProbabilityBlock& block,
               double* to) const;
  size_t entries() const { return static_cast<size_t>(grid_.cells() * grid_.cells() + grid_.tokens()); }

  const MapGrid grid_;
  const size_t most_heads_;
  std::vector<int64_t> heads_;
  std::vector<double> sums_;  // [kStrips, most_heads, cells^2 + tokens]
};

}  // namespace ropelab::engine
