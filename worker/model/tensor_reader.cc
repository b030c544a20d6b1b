#include "worker/model/tensor_reader.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace ropelab::model {
namespace {

constexpr uintptr_t kAlignment = 64;  // bytes; what ATen's own allocator gives
constexpr int64_t kChunk =
    int64_t{1} << 22;  // elements whose finiteness is looked at together: bounds the scratch memory

bool AllFinite(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.view({-1});
  for (int64_t at = 0; at < flat.numel(); at += kChunk) {
    const at::Tensor chunk = flat.narrow(0, at, std::min(kChunk, flat.numel() - at));
    if (!at::isfinite(chunk).all().item<bool>()) return false;
  }
  return true;
}

bool IsAligned(const void* address) {
  return reinterpret_cast<uintptr_t>(address) % kAlignment == 0;
}

// The file's values in the file's dtype: the mapping itself where it is aligned, else a copy of it.
at::Tensor Stored(const formats::TensorEntry& entry,
                  const std::shared_ptr<const formats::Checkpoint>& checkpoint, at::ScalarType type) {
  const at::TensorOptions options = at::TensorOptions().dtype(type);
  if (!entry.bytes.empty() && IsAligned(entry.bytes.data())) {
    // from_blob takes a mutable pointer; the pages are mapped read only and weights are never written.
    void* pages = const_cast<char*>(entry.bytes.data());
    return at::from_blob(
        pages, entry.shape, [checkpoint](void*) {}, options);
  }
  at::Tensor copy = at::empty(entry.shape, options);
  if (!entry.bytes.empty()) std::memcpy(copy.data_ptr(), entry.bytes.data(), entry.bytes.size());
  return copy;
}

}  // namespace

std::optional<at::ScalarType> StoredType(std::string_view safetensors_dtype) {
  if (safetensors_dtype == "F32") return at::kFloat;
  if (safetensors_dtype == "BF16") return at::kBFloat16;
  if (safetensors_dtype == "F16") return at::kHalf;
  return std::nullopt;
}

absl::StatusOr<at::Tensor> ReadTensor(const formats::TensorEntry& entry,
                                      const std::shared_ptr<const formats::Checkpoint>& checkpoint,
                                      at::ScalarType dtype, at::Device device, const std::string& where) {
  const std::optional<at::ScalarType> type = StoredType(entry.dtype);
  if (!type.has_value())
    return absl::InvalidArgumentError(absl::StrCat(where, " is stored as ", entry.dtype));
  const at::Tensor stored = Stored(entry, checkpoint, *type);
  const at::Tensor converted = stored.to(dtype);
  if (!AllFinite(converted)) {
    if (AllFinite(stored)) {
      return absl::InvalidArgumentError(absl::StrCat(where, " holds values beyond the range of ",
                                                     dtype == at::kHalf ? "float16" : "bfloat16",
                                                     "; load the model as float32"));
    }
    return absl::InvalidArgumentError(
        absl::StrCat(where, " holds NaN or infinity; the checkpoint is damaged: copy or save it again"));
  }
  return converted.to(device);
}

}  // namespace ropelab::model
