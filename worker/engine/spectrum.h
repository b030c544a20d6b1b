// Spectra of tall matrices through their Gram matrix, in double: never an SVD of something as long as a
// prompt. The slash paper, equation (7); EXPERIMENTS.md section 3. No result's bits depend on the number of
// threads.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

namespace ropelab::engine {

// Of X with singular values s_1 >= s_2 >= ...: r1 = s_1^2 / sum s^2, rank = the least m with (s_1^2 + ... +
// s_m^2) / sum s^2 >= energy. A matrix of zeros has r1 NaN and rank 0.
struct Spectrum {
  double r1 = 0;
  int64_t rank = 0;
};

// Of symmetric positive semidefinite matrices [..., n, n], double, on the CPU: eigenvalues in descending
// order, [..., n] (negative ones of rounding are 0), and with `vectors` the eigenvectors as columns [..., n,
// n] in the same order, each with its largest coordinate in magnitude (the first of a tie) positive. Each
// matrix is worked on by one thread.
struct Eigen {
  at::Tensor values, vectors;
};
Eigen EigenOf(const at::Tensor& gram, bool vectors);

// `values`: [n] double, descending, none negative.
Spectrum SpectrumOf(const at::Tensor& values, double energy);

// Sum of X'X over rows that are added piece by piece, in double. X may have any floating dtype and leading
// dimensions: [..., rows, n] gives [..., n, n]. Pieces must be added in the same order for the same bits; not
// for several threads at once.
class GramSum {
 public:
  // Rows of a piece where the caller has no reason for another number: what is held in double at once.
  static constexpr int64_t kPieceRows = 512;

  void Add(const at::Tensor& rows);
  const at::Tensor& sum() const { return sum_; }  // undefined before the first Add

 private:
  at::Tensor sum_;
};

// Of X [rows, n], any floating dtype, with `centre` ([n] double, on the CPU; undefined: zeros) taken from
// each row: X'X [n, n] where n <= rows, else XX' [rows, rows]. Both have the same eigenvalues other than 0.
at::Tensor SmallerGram(const at::Tensor& x, const at::Tensor& centre);

}  // namespace ropelab::engine
