// Byte-level byte-pair encoding, learned from text, as a tokenizer.json that Hugging Face's tokenizers reads.
// Gage 1994; Sennrich, Haddow and Birch 2016 (arXiv 1508.07909); bytes as in GPT-2.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ropelab::train {

inline constexpr char kBeginToken[] = "<|begin|>";  // id 0; the tokenizer puts it before a text
inline constexpr char kEndToken[] = "<|end|>";      // id 1; an answer ends with it
inline constexpr int32_t kBeginId = 0;
inline constexpr int32_t kEndId = 1;

// How often each pre-token (raw bytes) stands in a text.
using WordCounts = std::map<std::string, int64_t>;

// Adds the pre-tokens of `text`, as the ByteLevel pre-tokenizer with GPT-2's pattern cuts it.
absl::Status CountWords(std::string_view text, WordCounts& counts);

struct ByteMerges {
  // Raw bytes of each token: the 256 bytes in order, then what each merge made. Ids count from 2.
  std::vector<std::string> tokens;
  std::vector<std::pair<std::string, std::string>> merges;  // in order, as raw bytes
};

// Merges the most frequent pair of neighbours (of a tie the one whose bytes come first) until the vocabulary
// has `vocabulary` tokens, the two special ones and 256 bytes among them, or no pair stands twice.
// `vocabulary` is at least 258.
ByteMerges TrainMerges(const WordCounts& counts, int64_t vocabulary);

// tokenizer.json, ends in a newline. The same merges give the same bytes.
std::string TokenizerJson(const ByteMerges& merges);

}  // namespace ropelab::train
