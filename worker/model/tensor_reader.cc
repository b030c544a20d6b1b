#include "worker/model/tensor_reader.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/formats/finite.h"
#include "worker/formats/mapped_pages.h"

namespace ropelab::model {
namespace {

constexpr uintptr_t kAlignment = 64;  // bytes; what ATen's own allocator gives

bool IsAligned(const void* address) {
  return reinterpret_cast<uintptr_t>(address) % kAlignment == 0;
}

std::string_view StoredName(at::ScalarType type) {
  if (type == at::kFloat) return "F32";
  return type == at::kHalf ? "F16" : "BF16";
}

absl::Status NotFinite(const std::string& where) {
  return absl::InvalidArgumentError(
      absl::StrCat(where, " holds NaN or infinity; the checkpoint is damaged: copy or save it again"));
}

// Runs `f(offset, chunk)` over the tensor's bytes while the next chunk is on its way from the disk.
template <typename Function>
absl::Status ForEachChunk(std::string_view bytes, Function f) {
  for (size_t at = 0; at < bytes.size(); at += formats::kMappedChunk) {
    const std::string_view chunk = bytes.substr(at, formats::kMappedChunk);
    formats::ReadAhead(bytes.substr(at + chunk.size(), formats::kMappedChunk));
    ROPELAB_RETURN_IF_ERROR(f(at, chunk));
  }
  return absl::OkStatus();
}

absl::StatusOr<at::Tensor> Mapped(const formats::TensorEntry& entry,
                                  const std::shared_ptr<const formats::Checkpoint>& checkpoint,
                                  at::ScalarType type, const std::string& where) {
  ROPELAB_RETURN_IF_ERROR(ForEachChunk(entry.bytes, [&](size_t, std::string_view chunk) {
    return formats::AllFinite(entry.dtype, chunk) ? absl::OkStatus() : NotFinite(where);
  }));
  // from_blob takes a mutable pointer; the pages are mapped read only and weights are never written.
  void* pages = const_cast<char*>(entry.bytes.data());
  return at::from_blob(
      pages, entry.shape, [checkpoint](void*) {}, at::TensorOptions().dtype(type));
}

// A copy in `dtype`, whose source leaves this process's memory as it is read.
absl::StatusOr<at::Tensor> Copied(const formats::TensorEntry& entry, at::ScalarType type,
                                  at::ScalarType dtype, const std::string& where) {
  at::Tensor copy = at::empty(entry.shape, at::TensorOptions().dtype(dtype));
  auto* const out = static_cast<char*>(copy.data_ptr());
  const auto from = static_cast<size_t>(c10::elementSize(type));
  const auto to = static_cast<size_t>(c10::elementSize(dtype));
  at::Tensor scratch;  // the source's chunk where the file has it at an odd place
  const auto convert = [&](size_t offset, std::string_view chunk) {
    const size_t count = chunk.size() / from;
    char* const place = out + offset / from * to;
    if (type == dtype) {
      std::memcpy(place, chunk.data(), chunk.size());
    } else {
      const auto size = static_cast<int64_t>(count);
      at::Tensor source;
      if (IsAligned(chunk.data())) {
        source = at::from_blob(const_cast<char*>(chunk.data()), {size}, at::TensorOptions().dtype(type));
      } else {
        if (!scratch.defined()) scratch = at::empty({size}, at::TensorOptions().dtype(type));
        source = scratch.narrow(0, 0, size);
        std::memcpy(source.data_ptr(), chunk.data(), chunk.size());
      }
      at::from_blob(place, {size}, at::TensorOptions().dtype(dtype)).copy_(source);
    }
    if (!formats::AllFinite(StoredName(dtype), {place, count * to})) {
      if (type == dtype || !formats::AllFinite(entry.dtype, chunk)) return NotFinite(where);
      return absl::InvalidArgumentError(absl::StrCat(where, " holds values beyond the range of ",
                                                     dtype == at::kHalf ? "float16" : "bfloat16",
                                                     "; load the model as float32"));
    }
    formats::GiveBackPages(chunk);
    return absl::OkStatus();
  };
  ROPELAB_RETURN_IF_ERROR(ForEachChunk(entry.bytes, convert));
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
  if (*type != dtype || entry.bytes.empty() || !IsAligned(entry.bytes.data())) {
    ROPELAB_ASSIGN_OR_RETURN(const at::Tensor copy, Copied(entry, *type, dtype, where));
    return copy.to(device);
  }
  ROPELAB_ASSIGN_OR_RETURN(const at::Tensor mapped, Mapped(entry, checkpoint, *type, where));
  if (device.is_cpu()) return mapped;
  at::Tensor placed = mapped.to(device);
  formats::GiveBackPages(entry.bytes);
  return placed;
}

}  // namespace ropelab::model
