#include "worker/formats/safetensors.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "worker/formats/safetensors_header_json.h"

namespace ropelab::formats {
namespace {

constexpr std::array<std::pair<std::string_view, int64_t>, 16> kDtypes = {{{"BOOL", 1},
                                                                           {"U8", 1},
                                                                           {"I8", 1},
                                                                           {"F8_E5M2", 1},
                                                                           {"F8_E4M3", 1},
                                                                           {"F8_E8M0", 1},
                                                                           {"I16", 2},
                                                                           {"U16", 2},
                                                                           {"F16", 2},
                                                                           {"BF16", 2},
                                                                           {"I32", 4},
                                                                           {"U32", 4},
                                                                           {"F32", 4},
                                                                           {"I64", 8},
                                                                           {"U64", 8},
                                                                           {"F64", 8}}};

uint64_t LittleEndian64(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = 8; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

absl::Status CheckRange(const HeaderTensor& tensor, uint64_t data_size, const std::string& where) {
  if (tensor.begin > tensor.end) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": data_offsets [", tensor.begin, ", ", tensor.end,
                                                   "] are reversed; write the file again"));
  }
  if (tensor.end > data_size) {
    return absl::InvalidArgumentError(absl::StrCat(
        where, ": data_offsets [", tensor.begin, ", ", tensor.end, "] lie outside the ", data_size,
        " bytes of data; the file is truncated or its header is wrong: copy it again"));
  }
  const absl::StatusOr<int64_t> bytes = TensorBytes(tensor.dtype, tensor.shape);
  if (!bytes.ok()) return absl::InvalidArgumentError(absl::StrCat(where, ": ", bytes.status().message()));
  if (static_cast<uint64_t>(*bytes) != tensor.end - tensor.begin) {
    return absl::InvalidArgumentError(absl::StrCat(
        where, ": shape [", absl::StrJoin(tensor.shape, ", "), "] of ", tensor.dtype, " needs ", *bytes,
        " bytes, its data_offsets span ", tensor.end - tensor.begin, "; write the file again"));
  }
  return absl::OkStatus();
}

absl::Status CheckOverlaps(const std::vector<TensorRange>& tensors, const std::string& name) {
  std::vector<const TensorRange*> order;
  for (const TensorRange& tensor : tensors) {
    if (tensor.begin != tensor.end) order.push_back(&tensor);
  }
  std::sort(order.begin(), order.end(),
            [](const TensorRange* a, const TensorRange* b) { return a->begin < b->begin; });
  for (size_t i = 1; i < order.size(); ++i) {
    if (order[i]->begin < order[i - 1]->end) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": the bytes of tensors ", order[i - 1]->name,
                                                     " and ", order[i]->name,
                                                     " overlap; write the file again"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::optional<int64_t> DtypeSize(std::string_view dtype) {
  for (const auto& [name, size] : kDtypes) {
    if (name == dtype) return size;
  }
  return std::nullopt;
}

absl::StatusOr<int64_t> TensorBytes(std::string_view dtype, const std::vector<int64_t>& shape) {
  const std::optional<int64_t> size = DtypeSize(dtype);
  if (!size.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("dtype \"", absl::string_view(dtype.data(), dtype.size()),
                                                   "\" is not one of safetensors'"));
  }
  // A zero anywhere makes the product zero, yet the other dimensions must still be representable.
  int64_t bytes = *size;
  bool empty = false;
  for (const int64_t dimension : shape) {
    if (dimension < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("shape [", absl::StrJoin(shape, ", "), "] has a negative dimension"));
    }
    if (dimension == 0) {
      empty = true;
    } else if (bytes > std::numeric_limits<int64_t>::max() / dimension) {
      return absl::InvalidArgumentError(absl::StrCat("shape [", absl::StrJoin(shape, ", "),
                                                     "] overflows: more bytes than 64 bits can count"));
    } else {
      bytes *= dimension;
    }
  }
  return empty ? 0 : bytes;
}

absl::StatusOr<std::vector<TensorRange>> ParseSafetensorsHeader(std::string_view file,
                                                                const std::string& name) {
  if (file.size() < 8) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": has ", file.size(),
                     " bytes, a safetensors file begins with 8 bytes of header length; copy it again"));
  }
  const uint64_t header_size = LittleEndian64(file);
  if (header_size > kMaxSafetensorsHeader) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": claims a header of ", header_size,
                                                   " bytes, at most ", kMaxSafetensorsHeader,
                                                   " are allowed; this is not a safetensors file"));
  }
  if (header_size > file.size() - 8) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": claims a header of ", header_size, " bytes, only ", file.size() - 8,
                     " follow its length; the file is truncated: copy it again"));
  }
  ROPELAB_ASSIGN_OR_RETURN(std::vector<HeaderTensor> header,
                           ParseHeaderJson(file.substr(8, header_size), name));
  const uint64_t data_start = 8 + header_size;
  std::vector<TensorRange> tensors;
  tensors.reserve(header.size());
  for (HeaderTensor& tensor : header) {
    ROPELAB_RETURN_IF_ERROR(
        CheckRange(tensor, file.size() - data_start, absl::StrCat(name, ": tensor ", tensor.name)));
    tensors.push_back({std::move(tensor.name), std::move(tensor.dtype), std::move(tensor.shape),
                       data_start + tensor.begin, data_start + tensor.end});
  }
  ROPELAB_RETURN_IF_ERROR(CheckOverlaps(tensors, name));
  return tensors;
}

}  // namespace ropelab::formats
