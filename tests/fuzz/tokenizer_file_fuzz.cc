// A tokenizer.json of any bytes. What is accepted must encode and decode without harm, whatever it maps to
// what.
#include <string>
#include <vector>

#include "common/printable.h"
#include "tests/fuzz/temporary_folder.h"
#include "worker/formats/tokenizer/tokenizer.h"

namespace ropelab::formats {
namespace {

constexpr std::string_view kTexts[] = {
    "",
    " ",
    "a",
    "Hello, world! It's 1234.",
    "\xe2\x96\x81  \n\t\r\n",
    "e\xcc\x81 \xe4\xbd\xa0\xe5\xa5\xbd \xf0\x9f\x91\x8d\xf0\x9f\x8f\xbd<s></s>"};

void CheckEncoding(const Tokenizer& tokenizer, std::string_view text, bool add_special) {
  const auto encoding = tokenizer.Encode(text, add_special);
  // A file may name no token for a text, or a pattern that takes too many steps: an error, not a crash.
  if (!encoding.ok()) return;
  ROPELAB_FUZZ_CHECK(encoding->ids.size() == encoding->spans.size());
  for (const TokenSpan& span : encoding->spans)
    ROPELAB_FUZZ_CHECK(span.begin <= span.end && span.end <= text.size());
  for (const int32_t id : encoding->ids) ROPELAB_FUZZ_CHECK(id >= 0 && id < tokenizer.vocabulary());
  const auto characters = CharacterSpans(text, encoding->spans);
  ROPELAB_FUZZ_CHECK(characters.size() == encoding->spans.size());
  const auto decoded = tokenizer.Decode(encoding->ids, false);
  ROPELAB_FUZZ_CHECK(decoded.ok() && IsUtf8(*decoded));
}

void CheckTokenizer(const Tokenizer& tokenizer) {
  for (const int32_t id : tokenizer.special_ids()) ROPELAB_FUZZ_CHECK(id >= 0 && id < tokenizer.vocabulary());
  for (const std::string_view text : kTexts) {
    CheckEncoding(tokenizer, text, false);
    CheckEncoding(tokenizer, text, true);
  }
  for (int32_t id = -1; id <= std::min(tokenizer.vocabulary(), 300); ++id) {
    const auto decoded = tokenizer.Decode(std::vector<int32_t>{id, id}, true);
    if (decoded.ok()) ROPELAB_FUZZ_CHECK(IsUtf8(*decoded));
  }
}

}  // namespace
}  // namespace ropelab::formats

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace ropelab;
  const auto tokenizer = formats::Tokenizer::Parse(fuzz::Text(bytes, size), "tokenizer.json");
  if (tokenizer.ok()) {
    formats::CheckTokenizer(**tokenizer);
  } else {
    ROPELAB_FUZZ_CHECK(IsUtf8(std::string(tokenizer.status().message())));
  }
  return 0;
}
