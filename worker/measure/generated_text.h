// Neutral English sentences drawn from a small grammar: text that says nothing, for prompts without a corpus.
// docs/random-numbers.md says how a sentence follows from its draws; the sentences are part of that contract,
// so neither a template nor a word may change.
#pragma once

#include <cstdint>
#include <string>

#include "common/philox.h"

namespace ropelab::measure {

// The sentences that a stream gives, in order. Each has 20 to 200 characters, ASCII, and ends with a full
// stop.
class GeneratedSentences {
 public:
  // Of a sample of generated prompts.
  GeneratedSentences(uint64_t seed, uint64_t sample) : stream_(seed, Purpose::kGeneratedText, sample) {}
  // From where `stream` stands.
  explicit GeneratedSentences(const Philox& stream) : stream_(stream) {}
  std::string Next();

 private:
  Philox stream_;
};

}  // namespace ropelab::measure
