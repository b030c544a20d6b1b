#include <filesystem>

#include "small_tokenizer.h"

namespace ropelab::formats {
namespace {

using Json = nlohmann::json;

std::string ProblemOf(const std::string& text) {
  const auto tokenizer = Tokenizer::Parse(text, "t.json");
  return tokenizer.ok() ? "" : std::string(tokenizer.status().message());
}

TEST(TokenizerErrors, WhatIsNoRegularFileIsRefused) {
  const auto tokenizer = Tokenizer::Read(std::filesystem::temp_directory_path().string());
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(std::string(tokenizer.status().message()),
            std::filesystem::temp_directory_path().string() +
                ": is not a regular file; name a tokenizer.json or a copy of it");
}

TEST(TokenizerErrors, APartThatIsNotBuiltIsNamedWithItsPath) {
  const std::vector<std::pair<const char*, const char*>> parts = {
      {"normalizer",
       "small.json: normalizer.type: 'Precompiled' is not built; built are Sequence, Prepend, Replace and "
       "NFC"},
      {"pre_tokenizer",
       "small.json: pre_tokenizer.type: 'Precompiled' is not built; built are Sequence, Split, ByteLevel, "
       "Metaspace and Digits"},
      {"post_processor",
       "small.json: post_processor.type: 'Precompiled' is not built; built are Sequence, ByteLevel and "
       "TemplateProcessing"},
      {"decoder",
       "small.json: decoder.type: 'Precompiled' is not built; built are Sequence, ByteLevel, ByteFallback, "
       "Fuse, Replace, Strip and Metaspace"}};
  for (const auto& [part, problem] : parts) {
    Json json = SmallTokenizer();
    json[part] = {{"type", "Precompiled"}};
    EXPECT_EQ(Problem(json), problem);
  }
  Json json = SmallTokenizer();
  json["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}, {{"type", "Lowercase"}}}}};
  EXPECT_EQ(
      Problem(json),
      "small.json: normalizer.normalizers[1].type: 'Lowercase' is not built; built are Sequence, Prepend, "
      "Replace and NFC");
}

TEST(TokenizerErrors, UnknownFieldsAreNamed) {
  const std::string ending = " is a field that is not known here, and what it changes is not built";
  Json json = SmallTokenizer();
  json["stemmer"] = "x";
  EXPECT_EQ(Problem(json), "small.json: stemmer: \"x\"" + ending);
  json = SmallTokenizer();
  json["model"]["vocab_loss"] = 1;
  EXPECT_EQ(Problem(json), "small.json: model.vocab_loss: 1" + ending);
  json = SmallTokenizer();
  json["normalizer"] = {{"type", "NFC"}, {"level", 2}};
  EXPECT_EQ(Problem(json), "small.json: normalizer.level: 2" + ending);
}

TEST(TokenizerErrors, OptionsOfTheModelThatAreNotBuiltAreRefused) {
  const auto problem_with = [](const char* option, const Json& value) {
    Json json = SmallTokenizer();
    json["model"][option] = value;
    return Problem(json);
  };
  EXPECT_EQ(problem_with("type", "Unigram"), "small.json: model.type: \"Unigram\" is not built; only BPE is");
  EXPECT_EQ(problem_with("dropout", 0.1),
            "small.json: model.dropout: 0.1 would draw tokens at random; set it to null");
  EXPECT_EQ(problem_with("dropout", 0.0), "");
  EXPECT_EQ(problem_with("end_of_word_suffix", "</w>"),
            "small.json: model.end_of_word_suffix: \"</w>\" is not built; only null and \"\" are");
  EXPECT_EQ(problem_with("fuse_unk", "yes"), "small.json: model.fuse_unk: \"yes\" is not true or false");
  Json json = SmallTokenizer();
  json["model"].erase("type");
  EXPECT_EQ(Problem(json), "");
}

TEST(TokenizerErrors, TruncationAndPaddingAreRefused) {
  Json json = SmallTokenizer();
  json["truncation"] = {{"max_length", 4}};
  EXPECT_EQ(
      Problem(json),
      "small.json: truncation: {\"max_length\":4} would change every text's tokens; texts are taken whole "
      "here, so write null in a copy of the file");
}

TEST(TokenizerErrors, VocabularyEntriesMustBeUnique) {
  Json json = SmallTokenizer();
  json["model"]["vocab"]["z"] = 3;
  EXPECT_EQ(Problem(json),
            "small.json: model.vocab: id 3 is given to 'c' and to 'z'; an id belongs to one token");
  EXPECT_EQ(ProblemOf(R"({"model": {"vocab": {"a": 0, "a": 1}, "merges": []}})"),
            "t.json: model.vocab: token 'a' is given twice, as 0 and as 1");
  EXPECT_EQ(ProblemOf(R"({"model": {"vocab": {"a": -1}, "merges": []}})"),
            "t.json: model.vocab: token 'a' has id -1; with 1 tokens, ids go from 0 to 65544");
  EXPECT_EQ(ProblemOf(R"({"model": {"vocab": {"a": 99999999999}, "merges": []}})"),
            "t.json: model.vocab: token 'a' has id 99999999999; with 1 tokens, ids go from 0 to 65544");
  EXPECT_EQ(ProblemOf(R"({"model": {"vocab": {"a": 1.5}, "merges": []}})"),
            "t.json: model.vocab: the id of token 'a' is 1.5, not an integer");
  EXPECT_EQ(ProblemOf(R"({"model": {"vocab": [["a", 1.5]], "merges": []}})"),
            "t.json: model.vocab: is an array, as Unigram models have it; only BPE is built");
}

TEST(TokenizerErrors, MergesMustNameTokens) {
  const auto problem_with = [](const Json& merge) {
    Json json = SmallTokenizer();
    json["model"]["merges"][1] = merge;
    return Problem(json);
  };
  EXPECT_EQ(problem_with("b q"), "small.json: model.merges[1]: token 'q' is not in model.vocab");
  EXPECT_EQ(problem_with("b a"),
            "small.json: model.merges[1]: token 'ba' is what the merge gives, and is not in model.vocab");
  EXPECT_EQ(problem_with("a b c"),
            "small.json: model.merges[1]: 'a b c' is not two tokens with one space between them");
  EXPECT_EQ(problem_with("ab"),
            "small.json: model.merges[1]: 'ab' is not two tokens with one space between them");
  EXPECT_EQ(problem_with({"a"}), "small.json: model.merges[1]: is not an array of two tokens");
  EXPECT_EQ(problem_with({"a", "b", "c"}), "small.json: model.merges[1]: is not an array of two tokens");
  EXPECT_EQ(problem_with(3), "small.json: model.merges[1]: is neither a string nor a pair");
  EXPECT_EQ(problem_with({"a", ""}),
            "small.json: model.merges[1]: token '' is empty; a merge joins two tokens with text");
  EXPECT_EQ(problem_with({"a", "b"}), "");
}

TEST(TokenizerErrors, AddedTokensMustAgreeWithTheVocabulary) {
  Json json = SmallTokenizer();
  AddToken(json, 5, "ab");
  EXPECT_EQ(Problem(json),
            "small.json: added_tokens[0].id: 5 of 'ab' contradicts model.vocab, where it is 11");
  json = SmallTokenizer();
  AddToken(json, 30, "<m>");
  EXPECT_EQ(
      Problem(json),
      "small.json: added_tokens[0].id: 30 of '<m>' contradicts the vocabulary and the tokens before it, "
      "after which comes 22");
  json = SmallTokenizer();
  AddToken(json, 22, "<m>");
  AddToken(json, 22, "<m>");
  EXPECT_EQ(Problem(json), "small.json: added_tokens[1].content: '<m>' is given twice; keep one");
  json = SmallTokenizer();
  AddToken(json, 22, "<m>", {{"special", "yes"}});
  EXPECT_EQ(Problem(json), "small.json: added_tokens[0].special: \"yes\" is not true or false");
}

TEST(TokenizerErrors, TextThatIsNoSuchFileIsRefused) {
  EXPECT_EQ(ProblemOf("[]"), "t.json: the file: [] is no JSON object");
  EXPECT_EQ(ProblemOf("{}"), "t.json: model: is missing");
  EXPECT_EQ(ProblemOf(R"({"a": 1, "a": 2})"), "t.json: field 'a' is given twice; keep one");
  EXPECT_TRUE(ProblemOf("{\"a\": ").starts_with("t.json: not JSON: ")) << ProblemOf("{\"a\": ");
  EXPECT_EQ(ProblemOf(std::string(40, '[') + std::string(40, ']')), "t.json: nested deeper than 32");
  EXPECT_EQ(ProblemOf(R"({"model": {"vocab": {"a": 0}}})"), "t.json: model.merges: is missing");
  EXPECT_EQ(Tokenizer::Read("/nowhere/tokenizer.json").status().message(),
            "/nowhere/tokenizer.json: no such file");
  EXPECT_EQ(Tokenizer::Read("/nowhere/tokenizer.json").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace ropelab::formats
