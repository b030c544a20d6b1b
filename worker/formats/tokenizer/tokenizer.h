// Text to token ids and back, as a checkpoint's tokenizer.json says. Ids equal those of Hugging Face's
// tokenizers library, on its Unicode tables. No torch here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace ropelab::formats {

// Bytes [begin, end) of the text as given (before any normalizer). A token that covers a part of a character
// spans the whole of it; a token that stands for nothing in the text (a template's) is empty, at 0.
struct TokenSpan {
  size_t begin = 0;
  size_t end = 0;
};

struct Encoding {
  std::vector<int32_t> ids;
  std::vector<TokenSpan> spans;  // one per id
};

// The same spans in Unicode code points of `text`, which must be valid UTF-8.
std::vector<TokenSpan> CharacterSpans(std::string_view text, const std::vector<TokenSpan>& spans);

// Immutable once made; every method may be called from many threads.
class Tokenizer {
 public:
  // INVALID_ARGUMENT: names the file, the field (JSON path) and the value of what is malformed or not built;
  // NOT_FOUND: no such file.
  static absl::StatusOr<std::shared_ptr<const Tokenizer>> Read(const std::string& path);
  // The same from the file's text; `name` is what messages call it.
  static absl::StatusOr<std::shared_ptr<const Tokenizer>> Parse(std::string_view json,
                                                                const std::string& name);
  ~Tokenizer();

  // Special tokens that stand literally in the text are recognised either way; with `add_special` the
  // post-processor's template is applied. INVALID_ARGUMENT naming the byte for text that is not UTF-8.
  absl::StatusOr<Encoding> Encode(std::string_view text, bool add_special) const;
  // Bytes that are no UTF-8 become U+FFFD. INVALID_ARGUMENT for an id outside the vocabulary.
  absl::StatusOr<std::string> Decode(std::span<const int32_t> ids, bool skip_special) const;

  // One past the largest id, added tokens included.
  int32_t vocabulary() const;
  // Ids of the added tokens marked special, ascending.
  const std::vector<int32_t>& special_ids() const;
  // What the template puts before and after a single text; empty without one.
  const std::vector<int32_t>& prefix_ids() const;
  const std::vector<int32_t>& suffix_ids() const;

 private:
  struct Parts;
  explicit Tokenizer(std::unique_ptr<Parts> parts);
  static absl::StatusOr<std::unique_ptr<Parts>> ReadParts(std::string_view json);
  std::unique_ptr<Parts> parts_;
};

}  // namespace ropelab::formats
