// A tokenizer that turns every byte into the id of its number, and corpora that lie in memory.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "worker/formats/tokenizer/tokenizer.h"
#include "worker/measure/texts.h"

namespace ropelab::measure {

inline std::string CodePoint(uint32_t c) {
  if (c < 0x80) return std::string(1, static_cast<char>(c));
  return {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 0x3F))};
}

// Byte-level, as the format stands for bytes by visible characters: those that are visible by themselves, the
// others by the characters from 256 on.
inline std::string ByteTokenizerJson() {
  nlohmann::json vocab;
  uint32_t spare = 256;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool visible = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    vocab[CodePoint(visible ? byte : spare++)] = byte;
  }
  const nlohmann::json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  const nlohmann::json model = {{"type", "BPE"},
                                {"dropout", nullptr},
                                {"unk_token", nullptr},
                                {"continuing_subword_prefix", nullptr},
                                {"end_of_word_suffix", nullptr},
                                {"fuse_unk", false},
                                {"byte_fallback", false},
                                {"vocab", vocab},
                                {"merges", nlohmann::json::array()}};
  return nlohmann::json{{"version", "1.0"},
                        {"truncation", nullptr},
                        {"padding", nullptr},
                        {"added_tokens", nlohmann::json::array()},
                        {"normalizer", nullptr},
                        {"pre_tokenizer", byte_level},
                        {"post_processor", nullptr},
                        {"decoder", byte_level},
                        {"model", model}}
      .dump();
}

inline std::shared_ptr<const formats::Tokenizer> ByteTokenizer() {
  const auto tokenizer = formats::Tokenizer::Parse(ByteTokenizerJson(), "bytes.json");
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? *tokenizer : nullptr;
}

class ListTexts : public Texts {
 public:
  explicit ListTexts(std::vector<std::string> documents) : documents_(std::move(documents)) {}
  absl::StatusOr<std::string> Document(const std::string& corpus, int64_t document) override {
    if (corpus != "c0ffee" || document >= static_cast<int64_t>(documents_.size())) {
      return absl::FailedPreconditionError(absl::StrCat("no ", DocumentName(corpus, document)));
    }
    return documents_[static_cast<size_t>(document)];
  }

 private:
  const std::vector<std::string> documents_;
};

}  // namespace ropelab::measure
