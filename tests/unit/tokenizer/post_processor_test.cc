// Expected ids and offsets are those of Hugging Face's tokenizers 0.22.2 for the same files.
#include "small_tokenizer.h"

namespace ropelab::formats {
namespace {

using Json = nlohmann::json;
using Numbers = std::vector<int32_t>;
using Places = std::vector<std::vector<size_t>>;

Json Special(const char* id) {
  return {{"SpecialToken", {{"id", id}, {"type_id", 0}}}};
}

Json Template() {
  return {{"type", "TemplateProcessing"},
          {"single", {Special("c"), {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}, Special("x")}},
          {"pair", Json::array()},
          {"special_tokens",
           {{"c", {{"id", "c"}, {"ids", {3, 1}}, {"tokens", {"c", "a"}}}},
            {"x", {{"id", "x"}, {"ids", {4}}, {"tokens", {"x"}}}}}}};
}

TEST(PostProcessor, TheTemplateSurroundsTheText) {
  auto json = SmallTokenizer();
  json["post_processor"] = Template();
  const auto tokenizer = Make(json);
  EXPECT_EQ(Ids(*tokenizer, "ab", true), (Numbers{3, 1, 11, 4}));
  EXPECT_EQ(Offsets(*tokenizer, "ab", true), (Places{{0, 0}, {0, 0}, {0, 2}, {0, 0}}));
  EXPECT_EQ(Ids(*tokenizer, "", true), (Numbers{3, 1, 4}));
  EXPECT_EQ(Ids(*tokenizer, "ab", false), (Numbers{11}));
  EXPECT_EQ(tokenizer->prefix_ids(), (Numbers{3, 1}));
  EXPECT_EQ(tokenizer->suffix_ids(), (Numbers{4}));
}

TEST(PostProcessor, ATemplateMustNameTheTextOnceAndTokensThatExist) {
  auto json = SmallTokenizer();
  json["post_processor"] = Template();
  json["post_processor"]["single"] = nlohmann::json::array({Special("c")});
  EXPECT_EQ(Problem(json),
            "small.json: post_processor.single: does not name the text, {\"Sequence\": {\"id\": \"A\"}}");
  json["post_processor"] = Template();
  json["post_processor"]["special_tokens"]["x"]["ids"] = {99};
  EXPECT_EQ(Problem(json), "small.json: post_processor.special_tokens.x.ids: 99 is no token's id");
  json["post_processor"]["special_tokens"].erase("x");
  EXPECT_EQ(Problem(json),
            "small.json: post_processor.special_tokens.x: is missing, and the template names it");
}

TEST(PostProcessor, TrimmedSpansLeaveSpacesOut) {
  auto json = SmallTokenizer();
  json["pre_tokenizer"] = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}, {"trim_offsets", true}};
  json["post_processor"] = json["pre_tokenizer"];
  EXPECT_EQ(Offsets(*Make(json), " ab  a a "), (Places{{1, 1}, {1, 3}, {4, 4}, {5, 6}, {7, 8}, {9, 9}}));
  json["pre_tokenizer"]["add_prefix_space"] = true;
  json["post_processor"]["add_prefix_space"] = true;
  EXPECT_EQ(Offsets(*Make(json), "ab  a"), (Places{{0, 0}, {0, 2}, {3, 3}, {4, 5}}));
  EXPECT_EQ(Offsets(*Make(json), " ab"), (Places{{0, 0}, {1, 3}}));
}

}  // namespace
}  // namespace ropelab::formats
