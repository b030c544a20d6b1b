// One stored tensor in the dtype and on the device that the decoder computes with.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "worker/formats/checkpoint.h"

namespace ropelab::model {

// For "F32", "BF16", "F16"; nothing for what weights are not read from.
std::optional<at::ScalarType> StoredType(std::string_view safetensors_dtype);

// A contiguous tensor of entry.shape whose data starts at a multiple of 64 bytes, so that the same weights
// compute the same bits however the file is laid out. Where dtype, device and alignment already fit, it is
// the mapping itself (read only, and holding `checkpoint`); else a copy, made in chunks whose source pages
// are given back, so that resident memory grows by the copy and some MiB. Every value is looked at, which
// also brings the pages in. `entry` belongs to `checkpoint`; `where` begins messages. Errors
// (InvalidArgument): NaN or infinity in the file, or a value that overflows `dtype`. Throws what libtorch
// throws (out of memory).
absl::StatusOr<at::Tensor> ReadTensor(const formats::TensorEntry& entry,
                                      const std::shared_ptr<const formats::Checkpoint>& checkpoint,
                                      at::ScalarType dtype, at::Device device, const std::string& where);

}  // namespace ropelab::model
