#include "worker/formats/tokenizer/tokenizer.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "worker/formats/tokenizer/added_tokens.h"
#include "worker/formats/tokenizer/bpe.h"
#include "worker/formats/tokenizer/decoder.h"
#include "worker/formats/tokenizer/normalizer.h"
#include "worker/formats/tokenizer/post_processor.h"
#include "worker/formats/tokenizer/pre_tokenizer.h"
#include "worker/formats/tokenizer/text_rewriter.h"
#include "worker/formats/tokenizer/tokenizer_parts.h"
#include "worker/formats/tokenizer/utf8.h"
#include "worker/formats/tokenizer/workspace_pool.h"

namespace ropelab::formats {
namespace {

// Spans from `first` on, in bytes of `text`, become spans of `original`, in which `text` came from byte
// `base` on. A token that covers a part of a character spans all of it.
void MapSpans(const NormalizedText& text, size_t base, std::string_view original, size_t first,
              std::vector<TokenSpan>& spans) {
  for (size_t k = first; k < spans.size(); ++k) {
    TokenSpan& span = spans[k];
    if (span.begin < span.end) {
      const NormalizedText::Origin origin = OriginOf(text, span.begin, span.end);
      span = {base + origin.begin, base + origin.end};
    }
    while (span.begin > 0 && span.begin < original.size() && IsContinuation(original[span.begin]))
      --span.begin;
    while (span.end < original.size() && IsContinuation(original[span.end])) ++span.end;
  }
}

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::~Tokenizer() = default;

absl::Status Tokenizer::Parts::EncodeNormalized(NormalizedText text, size_t base, std::string_view original,
                                                Bpe::Workspace& workspace, Encoding& encoding) const {
  CutText cut{.text = std::move(text), .pieces = {}, .base = base};
  cut.pieces.push_back({0, cut.text.text.size()});
  ROPELAB_RETURN_IF_ERROR(pre_tokenizer.Apply(cut));
  const size_t first = encoding.spans.size();
  const std::string_view view = cut.text.text;
  for (const TextRange& piece : cut.pieces) {
    ROPELAB_RETURN_IF_ERROR(
        bpe.Encode(view.substr(piece.begin, piece.end - piece.begin), piece.begin, workspace, encoding));
  }
  MapSpans(cut.text, base, original, first, encoding.spans);
  return absl::OkStatus();
}

// `text` lies at byte `base` of `original` and holds no added token that is looked for in it.
absl::Status Tokenizer::Parts::EncodeText(std::string_view text, size_t base, std::string_view original,
                                          Bpe::Workspace& workspace, Encoding& encoding) const {
  NormalizedText normalized{.text = std::string(text), .origin = {}};
  ROPELAB_RETURN_IF_ERROR(normalizer.Apply(normalized));
  const std::vector<AddedPiece> pieces = added.SplitNormalized(normalized.text);
  if (pieces.size() == 1 && pieces[0].id < 0) {
    return EncodeNormalized(std::move(normalized), base, original, workspace, encoding);
  }
  for (const AddedPiece& piece : pieces) {
    if (piece.id >= 0) {
      encoding.ids.push_back(piece.id);
      encoding.spans.push_back({piece.begin, piece.end});
      MapSpans(normalized, base, original, encoding.spans.size() - 1, encoding.spans);
      continue;
    }
    const size_t shift = normalized.origin.empty() ? piece.begin : 0;
    ROPELAB_RETURN_IF_ERROR(EncodeNormalized(Slice(normalized, piece.begin, piece.end), base + shift,
                                             original, workspace, encoding));
  }
  return absl::OkStatus();
}

absl::StatusOr<Encoding> Tokenizer::Encode(std::string_view text, bool add_special) const {
  if (text.size() > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a text of ", text.size(), " bytes is too long; at most 2147483647 are encoded at once"));
  }
  if (const size_t bad = FirstNonUtf8(text); bad != text.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the text's byte ", bad, " is not UTF-8"));
  }
  Encoding encoding;
  encoding.ids.reserve(text.size() / 4);
  encoding.spans.reserve(text.size() / 4);
  WorkspacePool::Loan workspace = parts_->workspaces.Borrow();
  for (const AddedPiece& piece : parts_->added.SplitOriginal(text)) {
    if (piece.id >= 0) {
      encoding.ids.push_back(piece.id);
      encoding.spans.push_back({piece.begin, piece.end});
      continue;
    }
    ROPELAB_RETURN_IF_ERROR(parts_->EncodeText(text.substr(piece.begin, piece.end - piece.begin), piece.begin,
                                               text, *workspace, encoding));
  }
  const PostProcessor& post = parts_->post_processor;
  if (post.trim) {
    for (size_t k = 0; k < encoding.ids.size(); ++k) {
      encoding.spans[k] = TrimSpan(post, text, parts_->TokenText(encoding.ids[k]), k == 0, encoding.spans[k]);
    }
  }
  if (add_special) {
    encoding.ids.insert(encoding.ids.begin(), post.prefix.begin(), post.prefix.end());
    encoding.ids.insert(encoding.ids.end(), post.suffix.begin(), post.suffix.end());
    encoding.spans.insert(encoding.spans.begin(), post.prefix.size(), TokenSpan{});
    encoding.spans.insert(encoding.spans.end(), post.suffix.size(), TokenSpan{});
  }
  return encoding;
}

absl::StatusOr<std::string> Tokenizer::Decode(std::span<const int32_t> ids, bool skip_special) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const int32_t id : ids) {
    if (id < 0 || id >= parts_->end) {
      return absl::InvalidArgumentError(
          absl::StrCat("token id ", id, " is outside the vocabulary of ", parts_->end));
    }
    // An id between tokens that no token has gives nothing, as in the reference.
    if (!parts_->Has(id) || (skip_special && parts_->special[static_cast<size_t>(id)])) continue;
    tokens.push_back(parts_->TokenText(id));
  }
  return parts_->decoder.Decode(std::move(tokens));
}

int32_t Tokenizer::vocabulary() const {
  return parts_->end;
}
const std::vector<int32_t>& Tokenizer::special_ids() const {
  return parts_->special_ids;
}
const std::vector<int32_t>& Tokenizer::prefix_ids() const {
  return parts_->post_processor.prefix;
}
const std::vector<int32_t>& Tokenizer::suffix_ids() const {
  return parts_->post_processor.suffix;
}

}  // namespace ropelab::formats
