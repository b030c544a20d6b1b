#include "worker/train/sample_text.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/measure/generated_text.h"
#include "worker/train/needle_texts.h"
#include "worker/train/streams.h"
#include "worker/train/text_grammar.h"

namespace ropelab::train {
namespace {

// Above the seeds that people write into specs, so that the haystacks of experiments were never trained on.
constexpr uint64_t kTextSeeds = uint64_t{1} << 60;
constexpr int64_t kSentencesPerNeedle = 20;

// One text in turn from the grammar and from the experiments' neutral text.
class Sentences {
 public:
  Sentences(uint64_t seed, uint64_t number, double generated_share, Philox& stream)
      : generated_(kTextSeeds + seed, number), generated_share_(generated_share), stream_(stream) {}

  std::string Next() {
    return stream_.Double() < generated_share_ ? generated_.Next() : TrainingSentence(stream_);
  }

 private:
  measure::GeneratedSentences generated_;
  const double generated_share_;
  Philox& stream_;
};

}  // namespace

absl::StatusOr<WordCounts> CountTrainingWords(uint64_t seed, int64_t sentences, double generated_share) {
  WordCounts counts;
  Philox stream = MakeStream(seed, Stream::kTokenizerText, 0);
  // Numbers of neutral text far from those of samples.
  Sentences source(seed, uint64_t{1} << 62, generated_share, stream);
  for (int64_t i = 0; i < sentences; ++i) {
    ROPELAB_RETURN_IF_ERROR(CountWords(absl::StrCat(" ", source.Next()), counts));
    if (i % kSentencesPerNeedle != 0) continue;
    const NeedleText needle = DrawNeedle(stream.Integer(NeedleThings()), stream);
    ROPELAB_RETURN_IF_ERROR(
        CountWords(absl::StrCat(" ", needle.statement, needle.question, needle.answer), counts));
  }
  return counts;
}

absl::StatusOr<TokenIds> SampleText::Encode(std::string_view text) const {
  ROPELAB_ASSIGN_OR_RETURN(formats::Encoding encoding, tokenizer_->Encode(text, false));
  return std::move(encoding.ids);
}

absl::StatusOr<std::vector<SampleText::Word>> SampleText::Haystack(int64_t tokens, uint64_t number,
                                                                   double noise, Philox& stream) const {
  std::vector<Word> words;
  Sentences source(seed_, number, generated_share_, stream);
  int64_t have = 0;
  // False when it does not fit.
  const auto add = [&](TokenIds ids, bool is_noise) {
    const auto size = static_cast<int64_t>(ids.size());
    if (have + size > tokens) return false;
    have += size;
    words.push_back({std::move(ids), is_noise});
    return true;
  };
  for (;;) {
    const std::string sentence = absl::StrCat(" ", source.Next());
    for (size_t begin = words.empty() ? 1 : 0; begin < sentence.size();) {
      const size_t end = std::min(sentence.find(' ', begin + 1), sentence.size());
      ROPELAB_ASSIGN_OR_RETURN(TokenIds word, Encode(std::string_view(sentence).substr(begin, end - begin)));
      if (!add(std::move(word), false)) return words;
      begin = end;
      if (noise == 0 || stream.Double() >= noise) continue;
      ROPELAB_ASSIGN_OR_RETURN(TokenIds code, Encode(absl::StrCat(" ", AnyCode(stream))));
      if (!add(std::move(code), true)) return words;
    }
  }
}

}  // namespace ropelab::train
