// A text of any bytes into small tokenizers of each layout (the first byte chooses), and the bytes as token
// ids back.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "common/printable.h"
#include "tests/fuzz/small_tokenizers.h"
#include "tests/fuzz/temporary_folder.h"

namespace ropelab::fuzz {
namespace {

// Special tokens written out in the text are found and decode to themselves, so they need no exception.
void CheckRoundTrip(const SmallTokenizer& small, std::string_view text, const std::vector<int32_t>& ids) {
  if (small.round_trip == RoundTrip::kNothing) return;
  const auto decoded = small.tokenizer->Decode(ids, /*skip_special=*/false);
  ROPELAB_FUZZ_CHECK(decoded.ok());
  std::string wanted(text);
  if (small.round_trip == RoundTrip::kSpaces) {
    // SentencePiece's layout puts a space before each stretch between special tokens, and takes one away.
    if (text.find('<') != std::string_view::npos) return;
    wanted = absl::StrReplaceAll(wanted, {{"\xe2\x96\x81", " "}});
  }
  ROPELAB_FUZZ_CHECK(*decoded == wanted);
}

void CheckSpans(const SmallTokenizer& small, std::string_view text, const formats::Encoding& encoding) {
  ROPELAB_FUZZ_CHECK(encoding.ids.size() == encoding.spans.size());
  size_t begin = 0, covered = 0;
  for (const formats::TokenSpan& span : encoding.spans) {
    ROPELAB_FUZZ_CHECK(span.begin <= span.end && span.end <= text.size());
    // Spans begin and end between characters.
    for (const size_t place : {span.begin, span.end})
      ROPELAB_FUZZ_CHECK(place == text.size() || (static_cast<unsigned char>(text[place]) & 0xc0) != 0x80);
    if (!small.ascending) continue;
    ROPELAB_FUZZ_CHECK(span.begin >= begin);
    begin = span.begin;
    if (small.round_trip == RoundTrip::kText) ROPELAB_FUZZ_CHECK(span.begin <= covered);
    covered = std::max(covered, span.end);
  }
  if (small.round_trip == RoundTrip::kText) ROPELAB_FUZZ_CHECK(covered == text.size());
  const std::vector<formats::TokenSpan> characters = formats::CharacterSpans(text, encoding.spans);
  ROPELAB_FUZZ_CHECK(characters.size() == encoding.spans.size());
}

void CheckText(const SmallTokenizer& small, std::string_view text) {
  const formats::Tokenizer& tokenizer = *small.tokenizer;
  const auto encoding = tokenizer.Encode(text, /*add_special=*/false);
  ROPELAB_FUZZ_CHECK(encoding.ok() == IsUtf8(text));
  if (!encoding.ok()) return;
  CheckSpans(small, text, *encoding);
  CheckRoundTrip(small, text, encoding->ids);
  const auto special = tokenizer.Encode(text, /*add_special=*/true);
  ROPELAB_FUZZ_CHECK(special.ok());
  std::vector<int32_t> wanted = tokenizer.prefix_ids();
  wanted.insert(wanted.end(), encoding->ids.begin(), encoding->ids.end());
  wanted.insert(wanted.end(), tokenizer.suffix_ids().begin(), tokenizer.suffix_ids().end());
  ROPELAB_FUZZ_CHECK(special->ids == wanted);
}

// Two bytes an id, a little beyond the vocabulary.
void CheckIds(const SmallTokenizer& small, const uint8_t* bytes, size_t size) {
  std::vector<int32_t> ids;
  bool known = true;
  for (size_t i = 0; i + 1 < size; i += 2) {
    ids.push_back((bytes[i] | bytes[i + 1] << 8) % 512 - 1);
    known = known && ids.back() >= 0 && ids.back() < small.tokenizer->vocabulary();
  }
  for (const bool skip_special : {false, true}) {
    const auto decoded = small.tokenizer->Decode(ids, skip_special);
    if (!known) ROPELAB_FUZZ_CHECK(!decoded.ok());
    if (decoded.ok()) ROPELAB_FUZZ_CHECK(IsUtf8(*decoded));
  }
}

}  // namespace
}  // namespace ropelab::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace ropelab::fuzz;
  if (size < 1) return 0;
  const std::vector<SmallTokenizer>& tokenizers = SmallTokenizers();
  const SmallTokenizer& small = tokenizers[bytes[0] % tokenizers.size()];
  CheckText(small, Text(bytes + 1, size - 1));
  CheckIds(small, bytes + 1, size - 1);
  return 0;
}
