#include "worker/measure/needle_text.h"

#include <cmath>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/philox.h"
#include "common/status_macros.h"
#include "worker/measure/generated_text.h"
#include "worker/measure/sentences.h"

namespace ropelab::measure {
namespace {

constexpr std::string_view kPlaceholder = "CODE";
constexpr int64_t kCharactersPerToken = 4;
constexpr int64_t kLongestCode = 64;
constexpr int64_t kMostDocuments = int64_t{1} << 32;

Philox StreamOf(const v1::NeedlePrompts& request, const v1::NeedleSample& sample) {
  const Purpose purpose =
      request.use() == v1::NeedlePrompts::DETECTION ? Purpose::kNeedleDetection : Purpose::kNeedleTest;
  const auto millionths = static_cast<uint64_t>(std::floor(sample.depth() * 1e6 + 0.5));
  return Philox(
      {request.seed(), static_cast<uint64_t>(purpose)},
      {0, static_cast<uint64_t>(sample.context_length()), static_cast<uint64_t>(sample.index()), millionths});
}

// Takes words until the haystack is as long as it may be.
class Haystack {
 public:
  explicit Haystack(int64_t context_length) : limit_(kCharactersPerToken * context_length) {}

  void Add(std::string_view sentence) {
    for (const std::string_view word : WordsOf(sentence)) {
      const int64_t with_word = characters_ + (words_.empty() ? 0 : 1) + CharactersOf(word);
      full_ = full_ || with_word > limit_;
      if (full_) return;
      words_.emplace_back(word);
      characters_ = with_word;
    }
  }
  // Whether a word did not fit, or none could.
  bool full() const { return full_ || characters_ + 2 > limit_; }
  int64_t limit() const { return limit_; }
  int64_t characters() const { return characters_; }
  std::vector<std::string> Take() { return std::move(words_); }

 private:
  const int64_t limit_;
  int64_t characters_ = 0;
  bool full_ = false;
  std::vector<std::string> words_;
};

absl::Status CheckTexts(const v1::NeedlePrompts& request) {
  const std::string_view text = request.needle_text();
  const size_t first = text.find(kPlaceholder);
  if (first == std::string_view::npos ||
      text.find(kPlaceholder, first + kPlaceholder.size()) != std::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("needle_text \"", request.needle_text(), "\" does not hold the word CODE exactly once"));
  }
  if (request.question_text().empty()) return absl::InvalidArgumentError("needles without a question_text");
  if (request.code_alphabet().empty() || request.code_length() < 1 || request.code_length() > kLongestCode) {
    return absl::InvalidArgumentError(absl::StrCat("a code of ", request.code_length(),
                                                   " characters of the alphabet \"", request.code_alphabet(),
                                                   "\": it has 1 to ", kLongestCode, " of at least one"));
  }
  if (request.chat()) {
    return absl::InvalidArgumentError("chat: this worker runs no chat templates; leave it out");
  }
  if (!request.corpus().empty() &&
      (request.corpus_documents() < 1 || request.corpus_documents() > kMostDocuments)) {
    return absl::InvalidArgumentError(absl::StrCat("a haystack of corpus ", request.corpus().substr(0, 16),
                                                   " with ", request.corpus_documents(), " documents"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckNeedles(const v1::NeedlePrompts& request, const v1::SampleBlock& samples) {
  if (request.samples_size() != samples.count()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the block has ", samples.count(), " samples but ", request.samples_size(), " needles"));
  }
  if (request.use() != v1::NeedlePrompts::DETECTION && request.use() != v1::NeedlePrompts::TEST) {
    return absl::InvalidArgumentError(absl::StrCat("needles of use ", static_cast<int>(request.use()),
                                                   ": this worker knows DETECTION and TEST"));
  }
  ROPELAB_RETURN_IF_ERROR(CheckTexts(request));
  for (const v1::NeedleSample& sample : request.samples()) {
    const bool sane = sample.context_length() >= 1 && sample.context_length() <= int64_t{1} << 24 &&
                      sample.depth() >= 0 && sample.depth() <= 1 && sample.index() >= 0;
    if (!sane) {
      return absl::InvalidArgumentError(absl::StrCat("needle ", sample.index(), " of context length ",
                                                     sample.context_length(), " at depth ", sample.depth(),
                                                     ": a length is 1 to 2^24 tokens, a depth 0 to 1"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<NeedleText> NeedleTexts::Make(const v1::NeedleSample& sample) {
  Philox stream = StreamOf(request_, sample);
  NeedleText result;
  for (int64_t i = 0; i < request_.code_length(); ++i) {
    result.code += request_.code_alphabet()[stream.Integer(request_.code_alphabet().size())];
  }
  result.needle = request_.needle_text();
  result.code_begin = result.needle.find(kPlaceholder);
  result.needle.replace(result.code_begin, kPlaceholder.size(), result.code);

  Haystack haystack(sample.context_length());
  if (request_.corpus().empty()) {
    GeneratedSentences sentences(stream);
    while (!haystack.full()) haystack.Add(sentences.Next());
    result.words = haystack.Take();
    return result;
  }
  std::vector<int64_t> documents(static_cast<size_t>(request_.corpus_documents()));
  std::iota(documents.begin(), documents.end(), int64_t{0});
  stream.Shuffle(std::span(documents));
  for (const int64_t document : documents) {
    ROPELAB_ASSIGN_OR_RETURN(const std::vector<std::string>* const sentences, SentencesOfDocument(document));
    std::vector<size_t> order(sentences->size());
    std::iota(order.begin(), order.end(), size_t{0});
    stream.Shuffle(std::span(order));
    for (size_t i = 0; i < order.size() && !haystack.full(); ++i) haystack.Add((*sentences)[order[i]]);
    if (haystack.full()) break;
  }
  if (!haystack.full()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "corpus ", request_.corpus().substr(0, 16), " has ", haystack.characters(),
        " characters in sentences of 20 to 200 characters in all of its ", request_.corpus_documents(),
        " documents, and a haystack for ", sample.context_length(), " tokens takes ", haystack.limit(),
        "; register a larger corpus, or ask for shorter context_lengths"));
  }
  result.words = haystack.Take();
  return result;
}

absl::StatusOr<const std::vector<std::string>*> NeedleTexts::SentencesOfDocument(int64_t document) {
  const auto known = sentences_.find(document);
  if (known != sentences_.end()) return &known->second;
  ROPELAB_ASSIGN_OR_RETURN(const std::string text,
                           DocumentText(*texts_, request_.corpus(), document, request_.text_field()));
  return &sentences_.emplace(document, SentencesOf(text)).first->second;
}

NeedlePromptText PromptTextOf(const NeedleText& needle, double depth, int64_t kept,
                              const std::string& question) {
  const auto floor_of = [&](int64_t words) {
    return static_cast<int64_t>(depth * static_cast<double>(words));
  };
  NeedlePromptText prompt;
  prompt.words = kept;
  prompt.words_before = floor_of(kept);
  const int64_t place = floor_of(static_cast<int64_t>(needle.words.size()));
  const int64_t first = place - prompt.words_before;
  for (int64_t i = first; i < place; ++i) {
    prompt.text += needle.words[static_cast<size_t>(i)];
    prompt.text += ' ';
  }
  prompt.needle_begin = prompt.text.size();
  prompt.code_begin = prompt.needle_begin + needle.code_begin;
  prompt.code_end = prompt.code_begin + needle.code.size();
  prompt.text += needle.needle;
  prompt.needle_end = prompt.text.size();
  for (int64_t i = place; i < first + kept; ++i) {
    prompt.text += ' ';
    prompt.text += needle.words[static_cast<size_t>(i)];
  }
  prompt.question_begin = prompt.text.size();
  prompt.text += question;
  return prompt;
}

}  // namespace ropelab::measure
