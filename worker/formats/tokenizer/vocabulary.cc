#include "worker/formats/tokenizer/vocabulary.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/printable.h"

namespace ropelab::formats {
namespace {

// Room that a vocabulary may leave free: real ones leave none or a few hundred ids.
constexpr int64_t kFreeIds = 1 << 16;
constexpr int64_t kIdsPerToken = 8;

}  // namespace

absl::StatusOr<Vocabulary> Vocabulary::Build(std::vector<TokenizerFile::Token> tokens) {
  Vocabulary vocabulary;
  int64_t largest = -1;
  const int64_t limit =
      std::min<int64_t>(kMaxId, kFreeIds + kIdsPerToken * static_cast<int64_t>(tokens.size()));
  for (const TokenizerFile::Token& token : tokens) {
    if (token.id < 0 || token.id > limit) {
      return absl::InvalidArgumentError(absl::StrCat("model.vocab: token '", Printable(token.text, 60),
                                                     "' has id ", token.id, "; with ", tokens.size(),
                                                     " tokens, ids go from 0 to ", limit));
    }
    largest = std::max(largest, token.id);
  }
  vocabulary.texts_.resize(static_cast<size_t>(largest + 1));
  vocabulary.present_.resize(static_cast<size_t>(largest + 1));
  vocabulary.ids_.reserve(tokens.size());
  for (TokenizerFile::Token& token : tokens) {
    const auto id = static_cast<size_t>(token.id);
    std::string& text = vocabulary.texts_[id];
    if (vocabulary.present_[id]) {
      return absl::InvalidArgumentError(
          absl::StrCat("model.vocab: id ", token.id, " is given to '", Printable(text, 60), "' and to '",
                       Printable(token.text, 60), "'; an id belongs to one token"));
    }
    text = std::move(token.text);
    vocabulary.present_[id] = true;
    const auto [entry, fresh] = vocabulary.ids_.emplace(text, static_cast<int32_t>(id));
    if (!fresh) {
      return absl::InvalidArgumentError(absl::StrCat("model.vocab: token '", Printable(text, 60),
                                                     "' is given twice, as ", entry->second, " and as ", id));
    }
  }
  return vocabulary;
}

}  // namespace ropelab::formats
