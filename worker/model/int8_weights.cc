#include "worker/model/int8_weights.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "worker/formats/finite.h"
#include "worker/formats/mapped_pages.h"
#include "worker/model/tensor_reader.h"

namespace ropelab::model {

Int8Rows RoundToInt8(const at::Tensor& rows) {
  const at::NoGradGuard no_gradients;
  const at::Tensor largest = rows.abs().amax(1);
  const at::Tensor scale = largest / at::full_like(largest, 127);  // by a tensor: a true division everywhere
  // A row of zeros is divided by 1. The clamp is for a scale so small that it lost digits itself.
  const at::Tensor divisor = at::where(scale > 0, scale, at::ones_like(scale)).unsqueeze(1);
  const at::Tensor rounded = (rows / divisor).round_().clamp_(-127, 127);
  return {rounded.masked_fill_((scale == 0).unsqueeze(1), 0).to(at::kChar), scale};
}

absl::StatusOr<Int8Rows> ReadInt8(const formats::TensorEntry& entry, const std::string& where) {
  const std::optional<at::ScalarType> type = StoredType(entry.dtype);
  if (!type.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(where, " is stored as ", entry.dtype));
  }
  const int64_t out = entry.shape[0], in = entry.shape[1];
  const int64_t row_bytes = in * static_cast<int64_t>(c10::elementSize(*type));
  const int64_t stretch =
      std::max<int64_t>(1, static_cast<int64_t>(formats::kMappedChunk) / std::max<int64_t>(1, row_bytes));
  Int8Rows whole = {at::empty({out, in}, at::kChar), at::empty({out}, at::kFloat)};
  // The file's bytes may lie at an odd place.
  const at::Tensor stored = at::empty({std::min(stretch, out), in}, at::TensorOptions().dtype(*type));
  for (int64_t first = 0; first < out; first += stretch) {
    const int64_t count = std::min(stretch, out - first);
    const std::string_view chunk =
        entry.bytes.substr(static_cast<size_t>(first * row_bytes), static_cast<size_t>(count * row_bytes));
    if (!formats::AllFinite(entry.dtype, chunk)) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, " holds NaN or infinity; the checkpoint is damaged: copy or save it again"));
    }
    std::memcpy(stored.data_ptr(), chunk.data(), chunk.size());
    formats::GiveBackPages(chunk);
    const Int8Rows rows = RoundToInt8(stored.narrow(0, 0, count).to(at::kFloat));
    whole.values.narrow(0, first, count).copy_(rows.values);
    whole.scale.narrow(0, first, count).copy_(rows.scale);
  }
  return whole;
}

at::Tensor WidenedRows(const at::Tensor& weight, const at::Tensor& scale, int64_t first, int64_t count) {
  const at::Tensor rows = weight.narrow(0, first, count);
  if (!scale.defined()) return rows;
  return rows.to(at::kFloat).mul_(scale.narrow(0, first, count).unsqueeze(1));
}

LayerWeights Widened(const LayerWeights& weights) {
  LayerWeights wide = weights;
  for (const ScaledProjection& projection : kScaledProjections) {
    at::Tensor& weight = wide.*projection.weight;
    at::Tensor& scale = wide.*projection.scale;
    if (!scale.defined()) continue;
    weight = WidenedRows(weight, scale, 0, weight.size(0));
    scale = at::Tensor();
  }
  return wide;
}

int64_t WidenedBytes(const Weights& weights) {
  int64_t most = 0;
  for (const LayerWeights& layer : weights.layers) {
    int64_t bytes = 0;
    for (const ScaledProjection& projection : kScaledProjections) {
      if ((layer.*projection.scale).defined()) {
        bytes += (layer.*projection.weight).numel() * static_cast<int64_t>(sizeof(float));
      }
    }
    most = std::max(most, bytes);
  }
  return most;
}

}  // namespace ropelab::model
