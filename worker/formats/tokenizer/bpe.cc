#include "worker/formats/tokenizer/bpe.h"

#include <utility>

#include "common/status_macros.h"
#include "worker/formats/tokenizer/byte_alphabet.h"

namespace ropelab::formats {
namespace {

void Append(const WordCache::Word& word, size_t offset, Encoding& encoding) {
  size_t begin = offset;
  for (size_t k = 0; k < word.tokens; ++k) {
    const size_t end = offset + word.ends[k];
    encoding.ids.push_back(word.ids[k]);
    encoding.spans.push_back({begin, end});
    begin = end;
  }
}

void Append(const std::vector<Symbol>& symbols, size_t offset, Encoding& encoding) {
  for (const Symbol& symbol : symbols) {
    encoding.ids.push_back(symbol.id);
    encoding.spans.push_back({offset + symbol.begin, offset + symbol.end});
  }
}

}  // namespace

Bpe::Bpe(BpeModel model, bool bytes)
    : model_(std::move(model)), bytes_(bytes), symbols_(model_, bytes), junctions_(model_) {}

int32_t Bpe::FindWhole(std::string_view piece) const {
  if (!bytes_) return model_.vocabulary.Find(piece);
  std::string spelled;
  for (const char byte : piece) spelled += CharacterOfByte(static_cast<uint8_t>(byte));
  return model_.vocabulary.Find(spelled);
}

absl::Status Bpe::Encode(std::string_view piece, size_t offset, Workspace& workspace,
                         Encoding& encoding) const {
  return WordCache::Fits(piece) ? EncodeWord(piece, offset, workspace, encoding)
                                : EncodeLong(piece, offset, workspace, encoding);
}

absl::Status Bpe::EncodeWord(std::string_view word, size_t offset, Workspace& workspace,
                             Encoding& encoding) const {
  const uint64_t hash = WordCache::Hash(word);
  if (const WordCache::Word* known = workspace.cache.Find(word, hash)) {
    Append(*known, offset, encoding);
    return absl::OkStatus();
  }
  std::vector<Symbol>& symbols = workspace.word;
  symbols.clear();
  const int32_t whole = model_.ignore_merges ? FindWhole(word) : -1;
  if (whole >= 0) {
    symbols.push_back({whole, 0, static_cast<uint32_t>(word.size())});
  } else {
    ROPELAB_RETURN_IF_ERROR(symbols_.ForEach(word, [&](const Symbol& symbol) { symbols.push_back(symbol); }));
    workspace.merger.Run(model_, symbols);
  }
  workspace.cache.Store(word, hash, symbols, 0);
  Append(symbols, offset, encoding);
  return absl::OkStatus();
}

// Merges what lies between two boundaries that nothing crosses as a word of its own.
absl::Status Bpe::EncodeLong(std::string_view piece, size_t offset, Workspace& workspace,
                             Encoding& encoding) const {
  if (model_.ignore_merges) {
    if (const int32_t whole = FindWhole(piece); whole >= 0) {
      Append(std::vector<Symbol>{{whole, 0, static_cast<uint32_t>(piece.size())}}, offset, encoding);
      return absl::OkStatus();
    }
  }
  std::vector<Symbol>& word = workspace.word;
  word.clear();
  ROPELAB_RETURN_IF_ERROR(symbols_.ForEach(piece, [&](const Symbol& symbol) {
    if (!word.empty() && !junctions_.MayCross(word.back().id, symbol.id)) {
      EncodeSegment(piece, offset, workspace, encoding);
      word.clear();
    }
    word.push_back(symbol);
  }));
  EncodeSegment(piece, offset, workspace, encoding);
  return absl::OkStatus();
}

void Bpe::EncodeSegment(std::string_view piece, size_t offset, Workspace& workspace,
                        Encoding& encoding) const {
  std::vector<Symbol>& symbols = workspace.word;
  // With ignore_merges the cache says what a whole piece gives, and a segment is none.
  const uint32_t begin = symbols.empty() ? 0 : symbols.front().begin;
  const uint32_t end = symbols.empty() ? 0 : symbols.back().end;
  if (symbols.size() < 2 || model_.ignore_merges || end - begin > WordCache::kMaxBytes) {
    workspace.merger.Run(model_, symbols);
    Append(symbols, offset, encoding);
    return;
  }
  const std::string_view text = piece.substr(begin, end - begin);
  const uint64_t hash = WordCache::Hash(text);
  if (const WordCache::Word* known = workspace.cache.Find(text, hash)) {
    Append(*known, offset + begin, encoding);
    return;
  }
  workspace.merger.Run(model_, symbols);
  workspace.cache.Store(text, hash, symbols, begin);
  Append(symbols, offset, encoding);
}

}  // namespace ropelab::formats
