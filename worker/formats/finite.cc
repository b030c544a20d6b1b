#include "worker/formats/finite.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace ropelab::formats {
namespace {

// Words with every bit of `exponent` set, among `count` from `bytes` on. The count is known to the compiler
// where it matters, and the loop becomes vector code.
template <typename Word, size_t count>
bool AnyFull(const char* bytes, Word exponent) {
  Word any = 0;
  for (size_t i = 0; i < count; ++i) {
    Word word;
    std::memcpy(&word, bytes + i * sizeof(Word), sizeof(Word));
    any = static_cast<Word>(any | static_cast<Word>((word & exponent) == exponent));
  }
  return any != 0;
}

template <typename Word>
bool NoneFull(std::string_view bytes, Word exponent) {
  constexpr size_t kBlock = 4096;
  while (bytes.size() >= kBlock) {
    if (AnyFull<Word, kBlock / sizeof(Word)>(bytes.data(), exponent)) return false;
    bytes.remove_prefix(kBlock);
  }
  for (; bytes.size() >= sizeof(Word); bytes.remove_prefix(sizeof(Word))) {
    if (AnyFull<Word, 1>(bytes.data(), exponent)) return false;
  }
  return true;
}

}  // namespace

bool AllFinite(std::string_view dtype, std::string_view bytes) {
  if (dtype == "F32") return NoneFull<uint32_t>(bytes, 0x7f800000);
  if (dtype == "BF16") return NoneFull<uint16_t>(bytes, 0x7f80);
  if (dtype == "F16") return NoneFull<uint16_t>(bytes, 0x7c00);
  return true;
}

}  // namespace ropelab::formats
