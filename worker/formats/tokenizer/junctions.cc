#include "worker/formats/tokenizer/junctions.h"

#include "worker/formats/tokenizer/utf8.h"

namespace ropelab::formats {

// A symbol's text is one character of the vocabulary either way: the byte alphabet's characters are
// characters.
Junctions::Junctions(const BpeModel& model) : everywhere_(model.merges_use_substitutes) {
  std::vector<int32_t> first(static_cast<size_t>(model.vocabulary.end()), -1);
  std::vector<int32_t> last = first;
  for (const auto& [pair, merge] : model.merges) {
    const auto left = static_cast<int32_t>(pair >> 32);
    const auto right = static_cast<int32_t>(pair);
    int32_t& before = last[static_cast<size_t>(left)];
    if (before < 0) {
      const std::string_view text = model.vocabulary.Text(left);
      before = model.vocabulary.Find(text.substr(PreviousCharacter(text, text.size())));
    }
    int32_t& after = first[static_cast<size_t>(right)];
    if (after < 0) {
      const std::string_view text = model.vocabulary.Text(right);
      after = model.vocabulary.Find(text.substr(0, CharacterBytes(text[0])));
    }
    if (before >= 0 && after >= 0) pairs_.insert(BpeModel::PairKey(before, after));
  }
}

}  // namespace ropelab::formats
