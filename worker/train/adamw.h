// AdamW (Loshchilov and Hutter 2019, arXiv 1711.05101) with the norm of the whole gradient clipped, and its
// learning rate: linear warm-up, then a cosine.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "worker/train/recipe.h"

namespace ropelab::train {

// Of the step from `done` steps to one more; `steps` in all.
double LearningRate(const AdamWRule& rule, int64_t done, int64_t steps);

class AdamW {
 public:
  // Tensors of two dimensions decay, others do not.
  AdamW(const AdamWRule& rule, std::vector<at::Tensor> parameters);

  // One step from the parameters' gradients, which are cleared. Returns the gradient's norm before clipping.
  // `done`: steps taken before.
  double Step(int64_t done, double rate);

  // Running means of the gradients and of their squares, in the parameters' order; a state that is resumed
  // fills them in place.
  const std::vector<at::Tensor>& first() const { return first_; }
  const std::vector<at::Tensor>& second() const { return second_; }

 private:
  const AdamWRule rule_;
  const std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> first_, second_;
};

}  // namespace ropelab::train
