// A tokenizer small enough to check by hand. Tests change its parts.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "worker/formats/tokenizer/tokenizer.h"

namespace ropelab::formats {

inline nlohmann::json SmallTokenizer() {
  return nlohmann::json::parse(R"({
    "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
    "pre_tokenizer": null, "post_processor": null, "decoder": null,
    "model": {
      "type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
      "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
      "vocab": {"<unk>": 0, "a": 1, "b": 2, "c": 3, "x": 4, "1": 5, "2": 6, " ": 7, "-": 8, "▁": 9, "Ġ": 10,
                "ab": 11, "bc": 12, "abc": 13, "▁a": 14, "▁ab": 15, "Ġa": 16, "aa": 17, "aaaa": 18, "é": 19,
                "Ã": 20, "©": 21},
      "merges": ["a b", "b c", "ab c", "a bc", "▁ a", "▁ ab", "▁a b", "Ġ a", "a a", "aa aa"]
    }
  })");
}

inline void AddToken(nlohmann::json& json, int id, const std::string& content, nlohmann::json flags = {}) {
  nlohmann::json token = {{"id", id},        {"content", content},  {"special", false},    {"lstrip", false},
                          {"rstrip", false}, {"normalized", false}, {"single_word", false}};
  token.update(flags.is_null() ? nlohmann::json::object() : flags);
  json["added_tokens"].push_back(token);
}

// The tokens "<0x00>" ... "<0xFF>" as ids from `first` on.
inline void AddByteTokens(nlohmann::json& json, int first) {
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    json["model"]["vocab"][name] = first + byte;
  }
}

inline std::shared_ptr<const Tokenizer> Make(const nlohmann::json& json) {
  const auto tokenizer = Tokenizer::Parse(json.dump(), "small.json");
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? *tokenizer : nullptr;
}

// What is wrong with the file, without its name; "" when nothing is.
inline std::string Problem(const nlohmann::json& json) {
  const auto tokenizer = Tokenizer::Parse(json.dump(), "small.json");
  return tokenizer.ok() ? "" : std::string(tokenizer.status().message());
}

inline std::vector<int32_t> Ids(const Tokenizer& tokenizer, const std::string& text, bool special = false) {
  const auto encoding = tokenizer.Encode(text, special);
  EXPECT_TRUE(encoding.ok()) << encoding.status();
  return encoding.ok() ? encoding->ids : std::vector<int32_t>();
}

// Spans in characters, as {begin, end} pairs.
inline std::vector<std::vector<size_t>> Offsets(const Tokenizer& tokenizer, const std::string& text,
                                                bool special = false) {
  std::vector<std::vector<size_t>> offsets;
  const auto encoding = tokenizer.Encode(text, special);
  EXPECT_TRUE(encoding.ok()) << encoding.status();
  if (!encoding.ok()) return offsets;
  for (const TokenSpan& span : CharacterSpans(text, encoding->spans))
    offsets.push_back({span.begin, span.end});
  return offsets;
}

inline std::string Decoded(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, bool skip = false) {
  const auto text = tokenizer.Decode(ids, skip);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.ok() ? *text : "";
}

}  // namespace ropelab::formats
