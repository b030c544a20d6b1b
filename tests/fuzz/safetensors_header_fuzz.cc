// A safetensors file of any bytes. The first byte of the input says how the rest is meant: even, it is the
// file as it stands; odd, a header's JSON followed by as many zero bytes of data as the next byte counts, so
// that the length need not be guessed.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/fuzz/temporary_folder.h"
#include "worker/formats/safetensors.h"

namespace ropelab::formats {
namespace {

std::string WithLength(std::string_view json, size_t data) {
  std::string file;
  for (int byte = 0; byte < 8; ++byte)
    file += static_cast<char>(static_cast<uint64_t>(json.size()) >> (8 * byte) & 0xff);
  return file + std::string(json) + std::string(data, '\0');
}

void CheckTensors(std::vector<TensorRange> tensors, size_t file_size) {
  std::sort(tensors.begin(), tensors.end(),
            [](const TensorRange& a, const TensorRange& b) { return a.begin < b.begin; });
  uint64_t free_from = 0;
  for (const TensorRange& tensor : tensors) {
    const auto bytes = TensorBytes(tensor.dtype, tensor.shape);
    ROPELAB_FUZZ_CHECK(bytes.ok());
    ROPELAB_FUZZ_CHECK(tensor.begin <= tensor.end && tensor.end <= file_size);
    ROPELAB_FUZZ_CHECK(tensor.end - tensor.begin == static_cast<uint64_t>(*bytes));
    if (tensor.begin == tensor.end) continue;
    ROPELAB_FUZZ_CHECK(tensor.begin >= free_from);
    free_from = tensor.end;
  }
}

}  // namespace
}  // namespace ropelab::formats

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace ropelab;
  if (size < 2) return 0;
  const std::string_view rest = fuzz::Text(bytes + 2, size - 2);
  const std::string file = bytes[0] % 2 == 0 ? std::string(rest) : formats::WithLength(rest, bytes[1]);
  const auto tensors = formats::ParseSafetensorsHeader(file, "model.safetensors");
  if (tensors.ok()) formats::CheckTensors(*tensors, file.size());
  return 0;
}
