// How one head's projection meets the vocabulary: the spectrum of its queries or keys, and how few singular
// directions of its weights each token's energy falls on. EXPERIMENTS.md section 3; the slash paper 4.3.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "worker/engine/spectrum.h"
#include "worker/measure/vocabulary_rows.h"

namespace ropelab::measure {

struct Alignment {
  engine::Spectrum spectrum;  // of Q or K over the tokens
  // Means over the tokens with W x != 0 (NaN when there is none): the largest energy's share, and the least
  // count of largest energies whose share reaches `energy`.
  double r1 = 0, rank = 0;
  double mean_norm = 0;  // mean of |W x| over all tokens
  at::Tensor axis;       // [d] double, length 1: the cone's; zeros when W is
};

// With W [D, d] = sum over m of s_m u_m v_m', a token's energies are e_m = (s_m v_m'x)^2. Since s_m v_m'x is
// coordinate m of U'W x, one product with U'W gives them all, and |W x|^2 is their sum. Everything in double,
// tokens in order, on the calling thread.
class AlignmentSums {
 public:
  // `weight`: a head's rows [D, d] of the projection, of any floating dtype. U comes from the Gram matrix W
  // W'.
  AlignmentSums(const at::Tensor& weight, double energy);

  // `projected` [rows, D]: the head's queries or keys of these tokens. Everything is finite.
  void Add(const VocabularyRows& rows, const at::Tensor& projected);

  // After at least one Add. The cone's axis is the v_m with the largest sum over the tokens of e_m(cone_x),
  // the first of a tie.
  Alignment Finish() const;

 private:
  void AddToken(const double* along);

  const double energy_;
  at::Tensor directions_;  // U'W [D, d]: row m is s_m v_m'
  engine::GramSum gram_;
  std::vector<double> axis_energy_;  // per m
  std::vector<double> energies_;     // of one token, descending
  int64_t tokens_ = 0, counted_ = 0;
  double r1_ = 0, rank_ = 0, norm_ = 0;
};

}  // namespace ropelab::measure
