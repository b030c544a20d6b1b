// Projections as int8 with one scale per output row: the weights' dtype INT8. EXPERIMENTS.md section 11;
// docs/decisions/0004-measurements-of-the-retrieval-paper.md says what is left wide and why.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "worker/formats/checkpoint.h"
#include "worker/model/loaded_model.h"

namespace ropelab::model {

struct Int8Rows {
  at::Tensor values;  // [out, in] int8, -127..127
  at::Tensor scale;   // [out] fp32; 0 for a row of zeros
};

// Of `rows` [out, in] fp32, finite, contiguous, on the CPU, in fp32: scale = max|w| / 127, values = w / scale
// rounded half to even. A row whose scale is 0 in fp32 becomes zeros.
Int8Rows RoundToInt8(const at::Tensor& rows);

// The same of a stored tensor [out, in], a stretch of rows at a time, whose source pages are given back:
// resident memory grows by the result and some MiB. Errors (InvalidArgument) begin with `where`: NaN or
// infinity in the file, a dtype that weights are not read from. Throws what libtorch throws.
absl::StatusOr<Int8Rows> ReadInt8(const formats::TensorEntry& entry, const std::string& where);

// A projection of LayerWeights and its scale.
struct ScaledProjection {
  at::Tensor LayerWeights::*weight;
  at::Tensor LayerWeights::*scale;
};
inline constexpr std::array<ScaledProjection, 7> kScaledProjections = {
    {{&LayerWeights::query, &LayerWeights::query_scale},
     {&LayerWeights::key, &LayerWeights::key_scale},
     {&LayerWeights::value, &LayerWeights::value_scale},
     {&LayerWeights::output, &LayerWeights::output_scale},
     {&LayerWeights::gate, &LayerWeights::gate_scale},
     {&LayerWeights::up, &LayerWeights::up_scale},
     {&LayerWeights::down, &LayerWeights::down_scale}}};

// Rows [first, first + count) of a projection, ready to be read as numbers: with a scale values * scale in
// fp32, rounded once; without one (undefined) a view of the rows as they are.
at::Tensor WidenedRows(const at::Tensor& weight, const at::Tensor& scale, int64_t first, int64_t count);

// The layer with every int8 projection widened as WidenedRows does and its scale gone; everything else is
// shared. A layer without scales comes back as it is.
LayerWeights Widened(const LayerWeights& weights);

// Bytes that Widened makes anew, of the layer that needs the most; 0 where nothing is int8.
int64_t WidenedBytes(const Weights& weights);

}  // namespace ropelab::model
