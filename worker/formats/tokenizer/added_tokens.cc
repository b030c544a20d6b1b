#include "worker/formats/tokenizer/added_tokens.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "worker/formats/tokenizer/json_fields.h"
#include "worker/formats/tokenizer/utf8.h"

namespace ropelab::formats {
namespace {

// Letters, marks, decimal digits, connectors and joiners: a word's characters in Unicode's UTS 18.
bool IsWord(char32_t character) {
  const auto point = static_cast<UChar32>(character);
  constexpr uint32_t kKinds = U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK;
  return u_hasBinaryProperty(point, UCHAR_ALPHABETIC) || (U_GET_GC_MASK(point) & kKinds) != 0 ||
         u_hasBinaryProperty(point, UCHAR_JOIN_CONTROL);
}

bool IsSpace(char32_t character) {
  return u_hasBinaryProperty(static_cast<UChar32>(character), UCHAR_WHITE_SPACE);
}

bool StandsAlone(std::string_view text, size_t begin, size_t end) {
  return (begin == 0 || !IsWord(CharacterAt(text, PreviousCharacter(text, begin)))) &&
         (end == text.size() || !IsWord(CharacterAt(text, end)));
}

// Where the white space starts that ends at `end`, not before `least`.
size_t SpaceBefore(std::string_view text, size_t end, size_t least) {
  while (end > least) {
    const size_t begin = PreviousCharacter(text, end);
    if (!IsSpace(CharacterAt(text, begin))) break;
    end = begin;
  }
  return end;
}

size_t SpaceAfter(std::string_view text, size_t begin) {
  while (begin < text.size() && IsSpace(CharacterAt(text, begin))) begin += CharacterBytes(text[begin]);
  return begin;
}

absl::StatusOr<AddedToken> ReadToken(const nlohmann::json& json, const std::string& path) {
  ROPELAB_ASSIGN_OR_RETURN(JsonFields fields, JsonFields::Of(json, path));
  AddedToken token;
  ROPELAB_ASSIGN_OR_RETURN(const int64_t id, fields.Count("id"));
  if (id > Vocabulary::kMaxId) {
    return fields.Error("id", absl::StrCat(id, " is too large; ids go from 0 to ", Vocabulary::kMaxId));
  }
  token.id = static_cast<int32_t>(id);
  ROPELAB_ASSIGN_OR_RETURN(token.content, fields.String("content"));
  if (token.content.empty()) return fields.Error("content", "is empty; a token needs text");
  ROPELAB_ASSIGN_OR_RETURN(token.special, fields.Bool("special"));
  ROPELAB_ASSIGN_OR_RETURN(token.single_word, fields.Bool("single_word"));
  ROPELAB_ASSIGN_OR_RETURN(token.lstrip, fields.Bool("lstrip"));
  ROPELAB_ASSIGN_OR_RETURN(token.rstrip, fields.Bool("rstrip"));
  ROPELAB_ASSIGN_OR_RETURN(token.normalized, fields.Bool("normalized"));
  ROPELAB_RETURN_IF_ERROR(fields.RefuseOthers());
  return token;
}

}  // namespace

absl::StatusOr<AddedTokens> AddedTokens::Read(const nlohmann::json* tokens, const Vocabulary& vocabulary,
                                              const Normalizer& normalizer) {
  AddedTokens added;
  std::set<std::string> contents;
  int32_t next = vocabulary.count();
  for (size_t k = 0; tokens != nullptr && k < tokens->size(); ++k) {
    const std::string path = absl::StrCat("added_tokens[", k, "]");
    ROPELAB_ASSIGN_OR_RETURN(AddedToken token, ReadToken((*tokens)[k], path));
    const std::string shown = Printable(token.content, 60);
    if (!contents.insert(token.content).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ".content: '", shown, "' is given twice; keep one"));
    }
    const int32_t own = vocabulary.Find(token.content);
    const int32_t expected = own >= 0 ? own : next;
    if (token.id != expected) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ".id: ", token.id, " of '", shown, "' contradicts ",
                       own >= 0 ? "model.vocab, where it is "
                                : "the vocabulary and the tokens before it, after which comes ",
                       expected));
    }
    if (own < 0 && vocabulary.Has(token.id)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ".id: ", token.id, " of '", shown, "' is that of '",
                       Printable(vocabulary.Text(token.id), 60), "' in model.vocab"));
    }
    next = std::max(next, token.id + 1);
    added.tokens_.push_back(std::move(token));
  }
  // Of equal texts the reference takes special tokens first.
  std::vector<std::string> original, normalized;
  for (const bool special : {true, false}) {
    for (size_t k = 0; k < added.tokens_.size(); ++k) {
      const AddedToken& token = added.tokens_[k];
      if (token.special != special) continue;
      NormalizedText text{.text = token.content, .origin = {}};
      if (token.normalized) ROPELAB_RETURN_IF_ERROR(normalizer.Apply(text));
      if (text.text.empty()) {
        return absl::InvalidArgumentError(
            absl::StrCat("added_tokens[", k, "].content: '", Printable(token.content, 60),
                         "' is empty once normalized; set normalized to false"));
      }
      (token.normalized ? added.normalized_ : added.original_).tokens.push_back(k);
      (token.normalized ? normalized : original).push_back(std::move(text.text));
    }
  }
  added.original_.finder = LiteralFinder(original);
  added.normalized_.finder = LiteralFinder(normalized);
  return added;
}

std::vector<AddedPiece> AddedTokens::SplitOriginal(std::string_view text) const {
  return Split(original_, text);
}

std::vector<AddedPiece> AddedTokens::SplitNormalized(std::string_view text) const {
  return Split(normalized_, text);
}

std::vector<AddedPiece> AddedTokens::Split(const Set& set, std::string_view text) const {
  std::vector<AddedPiece> pieces;
  size_t done = 0;
  size_t space_end = 0;  // the white space that the last rstrip looked through ends here
  for (size_t from = 0; !set.finder.empty();) {
    const auto match = set.finder.Find(text, from);
    if (!match) break;
    from = match->end;
    const AddedToken& token = tokens_[set.tokens[match->which]];
    if (token.single_word && !StandsAlone(text, match->begin, match->end)) continue;
    AddedPiece piece{match->begin, match->end, token.id};
    if (token.lstrip) piece.begin = std::max(SpaceBefore(text, piece.begin, done), done);
    if (token.rstrip) piece.end = space_end = piece.end < space_end ? space_end : SpaceAfter(text, piece.end);
    piece.end = std::max(piece.end, piece.begin);
    if (done < piece.begin) pieces.push_back({done, piece.begin, -1});
    pieces.push_back(piece);
    done = piece.end;
  }
  if (done != text.size()) pieces.push_back({done, text.size(), -1});
  return pieces;
}

}  // namespace ropelab::formats
