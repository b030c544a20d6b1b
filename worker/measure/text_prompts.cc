#include "worker/measure/text_prompts.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/formats/tokenizer/tokenizer.h"
#include "worker/measure/generated_text.h"
#include "worker/measure/texts.h"

namespace ropelab::measure {
namespace {

constexpr int64_t kFirstSentences = 8;
constexpr int64_t kSpareSentences = 2;
// A tokenizer that makes no ids of so much text makes none of any.
constexpr int64_t kMostSentences = int64_t{1} << 24;

absl::Status CheckTokens(int64_t tokens, const char* what, const formats::ModelConfig& config) {
  if (tokens >= 1 && tokens <= config.max_positions) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " of ", tokens, " tokens: the model takes 1 to ", config.max_positions));
}

// BOS where there is one, then the first ids of the text.
TokenIds Cut(std::optional<int32_t> bos, const TokenIds& text, int64_t tokens) {
  TokenIds ids;
  ids.reserve(static_cast<size_t>(tokens));
  if (bos) ids.push_back(*bos);
  ids.insert(ids.end(), text.begin(), text.begin() + (tokens - static_cast<int64_t>(ids.size())));
  return ids;
}

// The ids of generated text, at least `needed` of them.
absl::StatusOr<TokenIds> GeneratedIds(uint64_t seed, uint64_t sample, int64_t needed,
                                      const formats::Tokenizer& tokenizer) {
  GeneratedSentences sentences(seed, sample);
  std::string text;
  int64_t drawn = 0;
  const auto draw_up_to = [&](int64_t count) {
    for (; drawn < count; ++drawn) {
      if (drawn > 0) text += ' ';
      text += sentences.Next();
    }
  };
  for (int64_t count = kFirstSentences; count <= kMostSentences; count *= 2) {
    draw_up_to(count);
    ROPELAB_ASSIGN_OR_RETURN(formats::Encoding encoding, tokenizer.Encode(text, /*add_special=*/false));
    if (static_cast<int64_t>(encoding.ids.size()) < needed) continue;
    draw_up_to(count + kSpareSentences);
    ROPELAB_ASSIGN_OR_RETURN(encoding, tokenizer.Encode(text, /*add_special=*/false));
    if (static_cast<int64_t>(encoding.ids.size()) < needed) continue;
    return std::move(encoding.ids);
  }
  return absl::InvalidArgumentError(absl::StrCat("generated text: the tokenizer makes fewer than ", needed,
                                                 " ids of ", kMostSentences, " sentences"));
}

}  // namespace

absl::Status CheckRows(const TokenIds& ids, const std::string& text, const formats::ModelConfig& config) {
  for (const int32_t id : ids) {
    if (id < config.vocabulary) continue;
    return absl::InvalidArgumentError(absl::StrCat(text, ": the model's tokenizer.json makes token id ", id,
                                                   " of it, and the embedding has ", config.vocabulary,
                                                   " rows: that tokenizer belongs to another checkpoint"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TokenIds>> CorpusPrompts(const v1::CorpusDocuments& request,
                                                    const v1::SampleBlock& samples,
                                                    const formats::ModelConfig& config,
                                                    const formats::Tokenizer& tokenizer, Texts& texts) {
  ROPELAB_RETURN_IF_ERROR(CheckTokens(request.tokens(), "corpus prompts", config));
  if (request.documents_size() != samples.count()) {
    return absl::InvalidArgumentError(absl::StrCat("the block has ", samples.count(), " samples but ",
                                                   request.documents_size(), " documents"));
  }
  const auto bos = request.has_bos_token_id() ? std::optional<int32_t>(request.bos_token_id()) : std::nullopt;
  const int64_t needed = request.tokens() - (bos ? 1 : 0);
  std::vector<TokenIds> prompts;
  for (const int64_t document : request.documents()) {
    ROPELAB_ASSIGN_OR_RETURN(const std::string text,
                             DocumentText(texts, request.corpus(), document, request.text_field()));
    const absl::StatusOr<formats::Encoding> encoding = tokenizer.Encode(text, /*add_special=*/false);
    if (!encoding.ok()) {
      return absl::Status(encoding.status().code(),
                          absl::StrCat(DocumentName(request.corpus(), document), ": ",
                                       std::string(encoding.status().message())));
    }
    if (static_cast<int64_t>(encoding->ids.size()) < needed) {
      return absl::InvalidArgumentError(absl::StrCat(DocumentName(request.corpus(), document), " has ",
                                                     encoding->ids.size(), " tokens and ", needed,
                                                     " are needed; the plan should have skipped it"));
    }
    prompts.push_back(Cut(bos, encoding->ids, request.tokens()));
    ROPELAB_RETURN_IF_ERROR(CheckRows(prompts.back(), DocumentName(request.corpus(), document), config));
  }
  return prompts;
}

absl::StatusOr<std::vector<TokenIds>> GeneratedPrompts(const v1::GeneratedText& request,
                                                       const v1::SampleBlock& samples,
                                                       const formats::ModelConfig& config,
                                                       const formats::Tokenizer& tokenizer) {
  ROPELAB_RETURN_IF_ERROR(CheckTokens(request.tokens(), "generated prompts", config));
  const auto bos = request.has_bos_token_id() ? std::optional<int32_t>(request.bos_token_id()) : std::nullopt;
  std::vector<TokenIds> prompts;
  for (int64_t s = 0; s < samples.count(); ++s) {
    ROPELAB_ASSIGN_OR_RETURN(const TokenIds text,
                             GeneratedIds(request.seed(), static_cast<uint64_t>(samples.first_sample() + s),
                                          request.tokens() - (bos ? 1 : 0), tokenizer));
    prompts.push_back(Cut(bos, text, request.tokens()));
    ROPELAB_RETURN_IF_ERROR(CheckRows(prompts.back(), "generated text", config));
  }
  return prompts;
}

}  // namespace ropelab::measure
