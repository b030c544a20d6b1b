// What layer 0 makes of every token of the vocabulary, a stretch of ids at a time: the vocabulary as one
// prompt without positions. EXPERIMENTS.md section 3.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "worker/model/loaded_model.h"

namespace ropelab::measure {

// Of ids first .. first + rows - 1, on the CPU. What stands in double was computed in the activations' dtype,
// as the model computes it, and widened.
struct VocabularyRows {
  at::Tensor x;           // [rows, d] double: what enters the projections of attention
  at::Tensor cone_x;      // [rows, d] double; the same tensor as x where the two do not differ
  at::Tensor cone_norm;   // [rows] double: the length of each row of cone_x
  at::Tensor query, key;  // [rows, H, D], [rows, G, D] fp32: bias and q/k norm included, before RoPE
};

// Makes them. Rows are computed in tiles of fixed ids, each on one thread: a row's bits depend neither on the
// number of threads nor on where a stretch of whole tiles begins. libtorch's exceptions pass through.
class VocabularyReader {
 public:
  // `model` must outlive the reader. norm_weight: whether cone_x holds the learned weight of the norm before
  // attention; without it cone_x is the RMS-normed embedding, multiplied by 1 (gemma's 1 + w is left out as a
  // whole). Where there is no such norm cone_x is x.
  VocabularyReader(const model::LoadedModel& model, bool norm_weight);

  // Every part. `first` is a multiple of kTileRows.
  VocabularyRows Read(int64_t first, int64_t rows) const { return Read(first, rows, true); }
  // Only cone_x and cone_norm.
  VocabularyRows ReadCone(int64_t first, int64_t rows) const { return Read(first, rows, false); }

  static constexpr int64_t kTileRows = 64;

 private:
  VocabularyRows Read(int64_t first, int64_t rows, bool every_part) const;
  at::Tensor ConeInput(const at::Tensor& residual) const;
  void FillTile(int64_t first, int64_t offset, VocabularyRows& rows) const;

  const model::LoadedModel& model_;
  const bool plain_cone_;        // cone_x differs from x
  at::Tensor ones_;              // [d], stands for the learned weight where that is left out
  model::LayerWeights weights_;  // of layer 0: the norm and the projections, ready for products
};

}  // namespace ropelab::measure
