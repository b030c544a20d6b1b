// A checkpoint's folder of any content: an index and up to two shards, separated in the input by the byte
// 0xFF (which JSON cannot hold). A shard is a header's JSON; its length is put before it and 64 bytes of
// data, all 1, after it.
#include <string>

#include "tests/fuzz/temporary_folder.h"
#include "worker/formats/checkpoint.h"

namespace ropelab {
namespace {

std::string_view TakePart(std::string_view& rest) {
  const size_t end = rest.find('\xff');
  const std::string_view part = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  return part;
}

std::string Shard(std::string_view json) {
  std::string file;
  for (int byte = 0; byte < 8; ++byte)
    file += static_cast<char>(static_cast<uint64_t>(json.size()) >> (8 * byte) & 0xff);
  return file + std::string(json) + std::string(64, '\x01');
}

}  // namespace
}  // namespace ropelab

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace ropelab;
  static const fuzz::TemporaryFolder folder;
  std::string_view rest = fuzz::Text(bytes, size);
  folder.Write("model.safetensors.index.json", TakePart(rest));
  folder.Write("a.safetensors", Shard(TakePart(rest)));
  folder.Write("b.safetensors", Shard(TakePart(rest)));
  const auto checkpoint = formats::Checkpoint::Open(folder.path());
  if (!checkpoint.ok()) return 0;
  int64_t sum = 0;
  for (const formats::TensorEntry& tensor : checkpoint->tensors()) {
    ROPELAB_FUZZ_CHECK(checkpoint->Find(tensor.name) == &tensor);
    // Touches every byte of the mapping that the tensor claims.
    for (const char byte : tensor.bytes) sum += byte;
  }
  ROPELAB_FUZZ_CHECK(sum == checkpoint->bytes());
  return 0;
}
