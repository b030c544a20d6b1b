// Prompts of the in-context regression on which the shallow transformer is trained. EXPERIMENTS.md section
// 12; the slash paper, sections 5.1 and 5.2.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"

namespace ropelab::train {

// Positions count from 0: block b holds the x's of pairs [b Delta, (b+1) Delta) at 2 b Delta + 0..Delta-1 and
// their y's Delta later; the question comes last.
struct ShallowShape {
  int64_t features = 0;  // K, orthonormal
  int64_t pairs = 0;     // N_in
  int64_t offset = 1;    // Delta; divides pairs

  int64_t positions() const { return 2 * pairs + 1; }
  // d_x: K, one more where that is odd, because RoPE turns pairs of the d_x + 2 dimensions.
  int64_t feature_dims() const { return features + features % 2; }
  int64_t semantic_dims() const { return feature_dims() + 2; }  // [x, 1 where a label stands, y]
  int64_t InputPosition(int64_t pair) const { return pair / offset * 2 * offset + pair % offset; }
  int64_t LabelPosition(int64_t pair) const { return InputPosition(pair) + offset; }
};

// INVALID_ARGUMENT naming the field: fewer than one feature or pair, an offset that does not divide the
// pairs.
absl::Status CheckShape(const ShallowShape& shape);

// How w of a prompt's task y = <w, x> comes from a uniform draw on the sphere of radius sqrt(d_x).
struct TaskLaw {
  double scale = 1.0;
  double shift = 0.0;  // added to every coordinate, after the scale
};

struct ShallowBatch {
  at::Tensor semantic;  // [B, N, d_x + 2] float64: the embedding without the cone axis
  at::Tensor answer;    // [B] float64: <w, x_q>
  at::Tensor matches;   // [B, N] float64: 1 where a label of the question's feature stands
};

// Prompts [first, first + count) of the stream `purpose` (a random number's purpose in engine/random.h): per
// prompt the features of pairs 1..N_in, the question's feature (each Integer(K)), then d_x normals for w,
// whose direction is kept. The same prompt is the same whatever else is drawn.
ShallowBatch DrawPrompts(const ShallowShape& shape, const TaskLaw& law, uint64_t seed, uint64_t purpose,
                         int64_t first, int64_t count);

}  // namespace ropelab::train
