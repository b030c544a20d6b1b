#include "worker/train/training_samples.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/train/needle_texts.h"
#include "worker/train/streams.h"

namespace ropelab::train {
namespace {

constexpr int64_t kMostNeedles = 4;
constexpr int64_t kTokensPerNeedle = 32;  // statement, question, answer and some text between
constexpr double kOneQuestion = 0.3;
constexpr int64_t kShortestSpan = 4, kLongestSpan = 24;
constexpr size_t kUnknownTokens = 2;  // of a repeated span: what they follow does not tell them

// What the text around is drawn from.
struct Straw {
  uint64_t number = 0;
  double noise = 0;
};

struct EncodedNeedle {
  TokenIds statement, question, answer;  // the answer with the end token
};

absl::StatusOr<EncodedNeedle> EncodeNeedle(const SampleText& text, const NeedleText& needle) {
  EncodedNeedle encoded;
  ROPELAB_ASSIGN_OR_RETURN(encoded.statement, text.Encode(absl::StrCat(" ", needle.statement)));
  ROPELAB_ASSIGN_OR_RETURN(encoded.question, text.Encode(needle.question));
  ROPELAB_ASSIGN_OR_RETURN(encoded.answer, text.Encode(needle.answer));
  encoded.answer.push_back(kEndId);
  return encoded;
}

class Builder {
 public:
  explicit Builder(int64_t tokens) : tokens_(static_cast<size_t>(tokens)) { Add({kBeginId}, Role::kNone); }

  void Add(const TokenIds& ids, Role role) {
    sample_.ids.insert(sample_.ids.end(), ids.begin(), ids.end());
    sample_.roles.insert(sample_.roles.end(), ids.size(), role);
  }

  TrainingSample Finish() && {
    sample_.ids.resize(tokens_, kEndId);
    sample_.roles.resize(tokens_, Role::kNone);
    return std::move(sample_);
  }

 private:
  const size_t tokens_;
  TrainingSample sample_;
};

// Needle i stands before the word at places[i]. Questions are asked in the order of `asked`.
absl::StatusOr<TrainingSample> Hide(const SampleText& text, const std::vector<EncodedNeedle>& needles,
                                    const std::vector<size_t>& asked, const std::vector<double>& depths,
                                    int64_t tokens, const Straw& straw, Philox& stream) {
  int64_t fixed = 1;
  for (const EncodedNeedle& needle : needles) fixed += static_cast<int64_t>(needle.statement.size());
  for (const size_t i : asked) {
    fixed += static_cast<int64_t>(needles[i].question.size() + needles[i].answer.size());
  }
  if (fixed > tokens) {
    return absl::InvalidArgumentError(absl::StrCat("a needle with its question takes ", fixed,
                                                   " tokens, more than the prompt's ", tokens,
                                                   "; raise curriculum.lengths or vocabulary"));
  }
  ROPELAB_ASSIGN_OR_RETURN(const auto words,
                           text.Haystack(tokens - fixed, straw.number, straw.noise, stream));
  Builder builder(tokens);
  for (size_t w = 0; w <= words.size(); ++w) {
    for (size_t i = 0; i < needles.size(); ++i) {
      if (static_cast<size_t>(depths[i] * static_cast<double>(words.size())) == w) {
        builder.Add(needles[i].statement, Role::kNeedle);
      }
    }
    if (w < words.size()) builder.Add(words[w].ids, words[w].noise ? Role::kNone : Role::kText);
  }
  for (const size_t i : asked) {
    builder.Add(needles[i].question, Role::kQuestion);
    builder.Add(needles[i].answer, Role::kAnswer);
  }
  return std::move(builder).Finish();
}

absl::StatusOr<TrainingSample> PlainSample(const SampleText& text, int64_t tokens, double depth,
                                           const Straw& straw, Philox& stream) {
  ROPELAB_ASSIGN_OR_RETURN(EncodedNeedle needle, EncodeNeedle(text, PlainNeedle(PlainCode(stream))));
  return Hide(text, {std::move(needle)}, {0}, {depth}, tokens, straw, stream);
}

absl::StatusOr<TrainingSample> WordedSample(const SampleText& text, int64_t tokens, const Straw& straw,
                                            Philox& stream) {
  const int64_t most = std::clamp<int64_t>(tokens / kTokensPerNeedle - 1, 1, kMostNeedles);
  const size_t count = 1 + stream.Integer(static_cast<uint64_t>(most));
  std::vector<size_t> things(NeedleThings());
  std::iota(things.begin(), things.end(), size_t{0});
  stream.Shuffle(std::span<size_t>(things));
  std::vector<EncodedNeedle> needles;
  std::vector<double> depths;
  int64_t room = tokens - 1;
  for (size_t i = 0; i < count; ++i) {
    ROPELAB_ASSIGN_OR_RETURN(EncodedNeedle needle, EncodeNeedle(text, DrawNeedle(things[i], stream)));
    depths.push_back(stream.Double());
    const auto size =
        static_cast<int64_t>(needle.statement.size() + needle.question.size() + needle.answer.size());
    if (size > room) {  // long words in a small vocabulary
      depths.pop_back();
      continue;
    }
    room -= size;
    needles.push_back(std::move(needle));
  }
  if (needles.empty()) return PlainSample(text, tokens, stream.Double(), straw, stream);
  std::vector<size_t> asked(needles.size());
  std::iota(asked.begin(), asked.end(), size_t{0});
  stream.Shuffle(std::span<size_t>(asked));
  if (stream.Double() < kOneQuestion) asked.resize(1);
  return Hide(text, needles, asked, depths, tokens, straw, stream);
}

// Half the spans are random tokens, half are random characters of a code.
absl::StatusOr<TokenIds> DrawSpan(const SampleText& text, int64_t tokens, Philox& stream) {
  const int64_t longest = std::clamp(tokens / 8, kShortestSpan, kLongestSpan);
  const auto length =
      static_cast<size_t>(kShortestSpan) + stream.Integer(static_cast<uint64_t>(longest - kShortestSpan + 1));
  TokenIds span;
  if (stream.Double() < 0.5) {
    const auto ids = static_cast<uint64_t>(text.tokenizer().vocabulary() - 2);
    for (size_t i = 0; i < length; ++i) span.push_back(static_cast<int32_t>(2 + stream.Integer(ids)));
    return span;
  }
  std::string characters = " ";
  while (characters.size() < length) characters += PlainCode(stream);
  ROPELAB_ASSIGN_OR_RETURN(span, text.Encode(characters.substr(0, length)));
  return span;
}

absl::StatusOr<TrainingSample> SpanSample(const SampleText& text, int64_t tokens, const Straw& straw,
                                          Philox& stream) {
  constexpr size_t kTimes = 3;
  ROPELAB_ASSIGN_OR_RETURN(const TokenIds span, DrawSpan(text, tokens, stream));
  const auto rest = tokens - 1 - static_cast<int64_t>(kTimes * span.size());
  ROPELAB_ASSIGN_OR_RETURN(const auto words, text.Haystack(rest, straw.number, straw.noise, stream));
  std::vector<size_t> places(kTimes);
  for (size_t& place : places) place = stream.Integer(words.size() + 1);
  std::sort(places.begin(), places.end());
  const auto known = span.begin() + static_cast<int64_t>(std::min(kUnknownTokens, span.size()));
  Builder builder(tokens);
  size_t times = 0;
  for (size_t w = 0; w <= words.size(); ++w) {
    for (; times < kTimes && places[times] == w; ++times) {
      builder.Add(TokenIds(span.begin(), known), Role::kText);
      builder.Add(TokenIds(known, span.end()), times == 0 ? Role::kText : Role::kAnswer);
    }
    if (w < words.size()) builder.Add(words[w].ids, words[w].noise ? Role::kNone : Role::kText);
  }
  return std::move(builder).Finish();
}

// Numbers of neutral text: no two samples share one.
constexpr uint64_t kSamplesPerStep = uint64_t{1} << 20;
constexpr uint64_t kEvaluationTexts = uint64_t{1} << 61;

}  // namespace

absl::StatusOr<TrainingSample> DrawSample(const SampleText& text, const Recipe& recipe, int64_t tokens,
                                          uint64_t step, uint64_t number) {
  Philox stream = MakeStream(recipe.seed, Stream::kSamples, step, number);
  // Half the samples have no noise, the others up to the mix's share.
  const double noise = recipe.mix.noise * std::max(0.0, 2 * stream.Double() - 1);
  const Straw straw{step * kSamplesPerStep + number, noise};
  if (stream.Double() < recipe.mix.spans) return SpanSample(text, tokens, straw, stream);
  if (stream.Double() < recipe.mix.plain) {
    const double depth = stream.Double();
    return PlainSample(text, tokens, depth, straw, stream);
  }
  return WordedSample(text, tokens, straw, stream);
}

absl::StatusOr<TrainingSample> EvaluationSample(const SampleText& text, const Recipe& recipe, int64_t tokens,
                                                double depth, uint64_t number) {
  Philox stream = MakeStream(recipe.seed, Stream::kEvaluation, number, static_cast<uint64_t>(tokens));
  const Straw straw{kEvaluationTexts + number * kSamplesPerStep + static_cast<uint64_t>(tokens), 0};
  return PlainSample(text, tokens, depth, straw, stream);
}

}  // namespace ropelab::train
