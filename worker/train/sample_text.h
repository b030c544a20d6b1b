// Text as the lists of tokens that samples are put together from. A word with the space before it is a
// pre-token of its own, so pieces encoded apart give the ids of the whole text.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/philox.h"
#include "worker/formats/tokenizer/tokenizer.h"
#include "worker/train/bpe_trainer.h"

namespace ropelab::train {

using TokenIds = std::vector<int32_t>;

// The tokenizer's training text, sentences and needles of Stream::kTokenizerText, as its word counts.
absl::StatusOr<WordCounts> CountTrainingWords(uint64_t seed, int64_t sentences, double generated_share);

class SampleText {
 public:
  // `generated_share` of the sentences are the experiments' neutral text, drawn under a seed that no
  // experiment's small seed meets.
  SampleText(std::shared_ptr<const formats::Tokenizer> tokenizer, uint64_t seed, double generated_share)
      : tokenizer_(std::move(tokenizer)), seed_(seed), generated_share_(generated_share) {}

  // Without special tokens.
  absl::StatusOr<TokenIds> Encode(std::string_view text) const;

  struct Word {
    TokenIds ids;
    bool noise = false;  // a code that nobody asks for
  };
  // Words of sentences, each with the space before it but for the first, that together have at most `tokens`
  // tokens and to which the next word would not fit. `number` chooses the neutral text. After each word
  // stands, with probability `noise`, a code as in needles.
  absl::StatusOr<std::vector<Word>> Haystack(int64_t tokens, uint64_t number, double noise,
                                             Philox& stream) const;

  const formats::Tokenizer& tokenizer() const { return *tokenizer_; }

 private:
  std::shared_ptr<const formats::Tokenizer> tokenizer_;
  uint64_t seed_;
  double generated_share_;
};

}  // namespace ropelab::train
