#include "worker/measure/needle_prompts.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/measure/needle_text.h"
#include "worker/measure/text_prompts.h"
#include "worker/model/loaded_model.h"

namespace ropelab::measure {
namespace {

std::string NameOf(const v1::NeedleSample& sample, int64_t number) {
  return absl::StrCat("needle sample ", number, " (context length ", sample.context_length(), ", depth ",
                      sample.depth(), ", index ", sample.index(), ")");
}

absl::Status Named(const std::string& name, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(name, ": ", std::string(status.message())));
}

// A prompt's text with what the tokenizer makes of it.
struct Tokenized {
  NeedlePromptText prompt;
  formats::Encoding encoding;
};

// Finds how many words fit, and tokenizes.
class Trimmer {
 public:
  Trimmer(const v1::NeedlePrompts& request, const v1::NeedleSample& sample, const NeedleText& needle,
          const formats::Tokenizer& tokenizer)
      : request_(request),
        sample_(sample),
        needle_(needle),
        tokenizer_(tokenizer),
        room_(sample.context_length() - (request.has_bos_token_id() ? 1 : 0)) {}

  // What does not fit is needle and question alone, and nothing would. Else all words where they fit; else by
  // bisection between a count that fits and one that does not, until they are neighbours. Counts of tokens
  // may fall where a word is added, so more words might fit by chance; those that are returned do fit.
  absl::StatusOr<Tokenized> Trim() const {
    int64_t too_many = static_cast<int64_t>(needle_.words.size());
    ROPELAB_ASSIGN_OR_RETURN(Tokenized all, With(too_many));
    if (Fits(all)) return all;
    ROPELAB_ASSIGN_OR_RETURN(Tokenized best, With(0));
    for (int64_t fitting = 0; Fits(best) && too_many - fitting > 1;) {
      const int64_t middle = (fitting + too_many) / 2;
      ROPELAB_ASSIGN_OR_RETURN(Tokenized tried, With(middle));
      if (Fits(tried)) {
        fitting = middle;
        best = std::move(tried);
      } else {
        too_many = middle;
      }
    }
    return best;
  }

  bool Fits(const Tokenized& tried) const { return static_cast<int64_t>(tried.encoding.ids.size()) <= room_; }

 private:
  absl::StatusOr<Tokenized> With(int64_t words) const {
    Tokenized result;
    result.prompt = PromptTextOf(needle_, sample_.depth(), words, request_.question_text());
    ROPELAB_ASSIGN_OR_RETURN(result.encoding, tokenizer_.Encode(result.prompt.text, /*add_special=*/false));
    return result;
  }

  const v1::NeedlePrompts& request_;
  const v1::NeedleSample& sample_;
  const NeedleText& needle_;
  const formats::Tokenizer& tokenizer_;
  const int64_t room_;
};

// Every token that covers a byte of [begin, end) of the text. INVALID_ARGUMENT where none does.
absl::StatusOr<v1::TokenSpan> SpanOf(const RealisedNeedle& needle, size_t begin, size_t end,
                                     const char* what) {
  v1::TokenSpan span;
  bool found = false;
  for (size_t i = 0; i < needle.spans.size(); ++i) {
    if (std::max(needle.spans[i].begin, begin) >= std::min(needle.spans[i].end, end)) continue;
    if (!found) span.set_first(static_cast<int64_t>(i));
    span.set_last(static_cast<int64_t>(i));
    found = true;
  }
  if (found) return span;
  return absl::InvalidArgumentError(absl::StrCat("no token of the prompt covers the ", what, " \"",
                                                 needle.text.substr(begin, std::min<size_t>(end - begin, 80)),
                                                 "\": the tokenizer drops it; write it otherwise"));
}

// What the tokenizer changes on the way no answer could hold.
absl::Status CheckCodeComesBack(const RealisedNeedle& needle, const formats::Tokenizer& tokenizer) {
  const auto first = needle.ids.begin() + needle.facts.code().first();
  const TokenIds ids(first, needle.ids.begin() + needle.facts.code().last() + 1);
  ROPELAB_ASSIGN_OR_RETURN(const std::string decoded, tokenizer.Decode(ids, /*skip_special=*/false));
  if (absl::StrContains(decoded, needle.facts.code_text())) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the tokenizer cannot carry the code ",
                                                 needle.facts.code_text(), ": its tokens read \"", decoded,
                                                 "\"; choose a code_alphabet that the tokenizer knows"));
}

absl::Status Fill(Tokenized tokenized, const v1::NeedlePrompts& request, const Resources& resources,
                  RealisedNeedle& needle) {
  const NeedlePromptText& prompt = tokenized.prompt;
  if (request.has_bos_token_id()) {
    needle.ids.push_back(request.bos_token_id());
    needle.spans.emplace_back();
  }
  needle.ids.insert(needle.ids.end(), tokenized.encoding.ids.begin(), tokenized.encoding.ids.end());
  needle.spans.insert(needle.spans.end(), tokenized.encoding.spans.begin(), tokenized.encoding.spans.end());
  needle.text = prompt.text;
  needle.code_begin = prompt.code_begin;
  v1::RealisedNeedle& facts = needle.facts;
  facts.set_tokens(static_cast<int64_t>(needle.ids.size()));
  facts.set_words(prompt.words);
  facts.set_depth(
      prompt.words == 0 ? 0 : static_cast<double>(prompt.words_before) / static_cast<double>(prompt.words));
  ROPELAB_ASSIGN_OR_RETURN(*facts.mutable_needle(),
                           SpanOf(needle, prompt.needle_begin, prompt.needle_end, "needle"));
  ROPELAB_ASSIGN_OR_RETURN(*facts.mutable_code(), SpanOf(needle, prompt.code_begin, prompt.code_end, "code"));
  ROPELAB_ASSIGN_OR_RETURN(const v1::TokenSpan question,
                           SpanOf(needle, prompt.question_begin, prompt.text.size(), "question"));
  facts.set_question(question.first());
  if (resources.model != nullptr) {
    ROPELAB_RETURN_IF_ERROR(CheckRows(needle.ids, "the prompt", resources.model->config));
  }
  return CheckCodeComesBack(needle, *resources.tokenizer);
}

absl::StatusOr<RealisedNeedle> Realise(const v1::NeedlePrompts& request, const v1::NeedleSample& sample,
                                       int64_t number, const Resources& resources, NeedleTexts& texts) {
  RealisedNeedle result;
  result.facts.set_sample(number);
  ROPELAB_ASSIGN_OR_RETURN(const NeedleText text, texts.Make(sample));
  const Trimmer trimmer(request, sample, text, *resources.tokenizer);
  ROPELAB_ASSIGN_OR_RETURN(Tokenized tokenized, trimmer.Trim());
  if (!trimmer.Fits(tokenized)) {
    result.least_tokens = std::ssize(tokenized.encoding.ids) + (request.has_bos_token_id() ? 1 : 0);
    return result;
  }
  result.facts.set_fits(true);
  result.facts.set_code_text(text.code);
  ROPELAB_RETURN_IF_ERROR(Fill(std::move(tokenized), request, resources, result));
  return result;
}

}  // namespace

absl::StatusOr<std::vector<RealisedNeedle>> RealiseNeedles(const v1::NeedlePrompts& request,
                                                           const v1::SampleBlock& samples,
                                                           const Resources& resources) {
  ROPELAB_RETURN_IF_ERROR(CheckNeedles(request, samples));
  if (resources.tokenizer == nullptr || (!request.corpus().empty() && resources.texts == nullptr)) {
    return absl::FailedPreconditionError("needles need a tokenizer and the texts of their haystack's corpus");
  }
  NeedleTexts texts(request, resources.texts);
  std::vector<RealisedNeedle> needles;
  for (int i = 0; i < request.samples_size(); ++i) {
    const int64_t number = samples.first_sample() + i;
    absl::StatusOr<RealisedNeedle> needle = Realise(request, request.samples(i), number, resources, texts);
    if (!needle.ok()) return Named(NameOf(request.samples(i), number), needle.status());
    needles.push_back(*std::move(needle));
  }
  return needles;
}

absl::Status CheckFits(const v1::NeedleSample& sample, const RealisedNeedle& needle) {
  if (needle.facts.fits()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      NameOf(sample, needle.facts.sample()), ": needle and question alone are ", needle.least_tokens,
      " tokens, more than the context length; ask for longer context_lengths, or a shorter needle_text, "
      "question_text or code_length"));
}

absl::StatusOr<std::vector<TokenIds>> NeedlePromptIds(const v1::NeedlePrompts& request,
                                                      const v1::SampleBlock& samples,
                                                      const formats::ModelConfig& config,
                                                      const Resources& resources) {
  ROPELAB_ASSIGN_OR_RETURN(std::vector<RealisedNeedle> needles, RealiseNeedles(request, samples, resources));
  std::vector<TokenIds> prompts;
  for (size_t i = 0; i < needles.size(); ++i) {
    const v1::NeedleSample& sample = request.samples(static_cast<int>(i));
    const std::string name = NameOf(sample, needles[i].facts.sample());
    ROPELAB_RETURN_IF_ERROR(CheckFits(sample, needles[i]));
    if (2 * needles[i].facts.tokens() < sample.context_length()) {
      return absl::InvalidArgumentError(absl::StrCat(
          name, ": its prompt has ", needles[i].facts.tokens(),
          " tokens, fewer than half the context length; the haystack's text suits this tokenizer badly"));
    }
    ROPELAB_RETURN_IF_ERROR(CheckRows(needles[i].ids, name, config));
    prompts.push_back(std::move(needles[i].ids));
  }
  return prompts;
}

}  // namespace ropelab::measure
