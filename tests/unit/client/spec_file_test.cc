#include "client/spec_file.h"

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ropelab::client {
namespace {

using testing::HasSubstr;

std::string ErrorOf(const std::string& name, const std::string& text) {
  const auto submission = ParseSpec(name, text);
  return submission.ok() ? "accepted" : std::string(submission.status().message());
}

TEST(SpecFile, NamesFilePlaceAndFieldOfAnUnknownField) {
  const std::string error = ErrorOf("a.textproto", "name: \"x\"\nslash_detection {\n  thresold: 0.1\n}\n");
  EXPECT_THAT(error, testing::StartsWith("a.textproto:3:"));
  EXPECT_THAT(error, HasSubstr("\"thresold\""));
}

TEST(SpecFile, NamesThePlaceOfAValueOfTheWrongType) {
  EXPECT_THAT(ErrorOf("a.textproto", "name: 7\n"), testing::StartsWith("a.textproto:1:7: "));
  EXPECT_THAT(ErrorOf("a.textproto", "dtype: FLOAT31\n"), HasSubstr("FLOAT31"));
}

TEST(SpecFile, ListsTheValuesThatAnEnumerationTakes) {
  EXPECT_THAT(ErrorOf("a.textproto", "dtype: fp16\n"), HasSubstr("Values: FLOAT32, BFLOAT16, FLOAT16"));
  EXPECT_THAT(ErrorOf("a.textproto", "slash_detection { regime: small }\n"),
              HasSubstr("Values: SMALL, LARGE"));
}

TEST(SpecFile, SaysWhereQuotationMarksAreMissingAndWhereTooMuch) {
  EXPECT_THAT(ErrorOf("a.textproto", "model: planted\n"),
              testing::EndsWith("(a text stands in quotation marks)"));
  EXPECT_THAT(ErrorOf("a.textproto", "dtype: \"FLOAT16\"\n"),
              testing::EndsWith("(it stands without quotation marks)"));
  EXPECT_THAT(ErrorOf("a.textproto", "seeds: [\"4\"]\n"),
              testing::EndsWith("(it stands without quotation marks)"));
}

TEST(SpecFile, NamesTheFieldThatWasProbablyMeant) {
  EXPECT_THAT(ErrorOf("a.textproto", "seed: 3\n"), HasSubstr("Is \"seeds\" meant? Fields there: name, "));
  EXPECT_THAT(ErrorOf("a.textproto", "slash_detection { treshold: 0.1 }\n"),
              HasSubstr("Is \"threshold\" meant?"));
  EXPECT_THAT(ErrorOf("a.textproto", "batch_size: 3\n"), Not(HasSubstr("meant?")));
}

TEST(SpecFile, RefusesTwoKindsInOneExperiment) {
  EXPECT_THAT(ErrorOf("a.textproto", "slash_detection {}\ninspection {}\n"), HasSubstr("a.textproto:2:"));
  EXPECT_NE(ErrorOf("a.json", R"({"slash_detection": {}, "inspection": {}})"), "accepted");
}

TEST(SpecFile, TakesTopLevelExperimentsForAStudyInBothLanguages) {
  const auto text =
      ParseSpec("a.textproto", "# experiments {\nexperiments { name: \"detect\" slash_detection {} }\n");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->study().experiments(0).name(), "detect");
  const auto json = ParseSpec("a.json", R"({"experiments": [{"name": "detect", "slash_detection": {}}]})");
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ(json->study().experiments(0).name(), "detect");
}

TEST(SpecFile, TakesAFileWithoutTopLevelExperimentsForAnExperiment) {
  const auto spec =
      ParseSpec("a.textproto", "name: \"experiments\"\ntags: [\"experiments\"]\nslash_detection {}\n");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_TRUE(spec->has_experiment());
}

TEST(SpecFile, LetsTheFirstCharacterDecideWhereTheEndingDoesNot) {
  EXPECT_EQ(ParseSpec("-", " \n{\"name\": \"json\"}")->experiment().name(), "json");
  EXPECT_EQ(ParseSpec("-", "name: \"text\"")->experiment().name(), "text");
}

TEST(SpecFile, LeavesNumbersThatAreNotFiniteToTheServer) {
  EXPECT_EQ(ErrorOf("a.textproto", "slash_detection { threshold: nan }"), "accepted");
}

TEST(SpecFile, RefusesADuplicateJsonKeyWithItsPath) {
  EXPECT_THAT(ErrorOf("a.json", R"({"name": "x", "slash_detection": {"threshold": 1, "threshold": 2}})"),
              HasSubstr("slash_detection.threshold"));
  EXPECT_THAT(ErrorOf("a.json", R"({"experiments": [{"name": "a"}, {"name": "b", "name": "c"}]})"),
              HasSubstr("experiments.1.name"));
}

TEST(SpecFile, TakesTwoSpellingsOfOneJsonKeyForADuplicate) {
  EXPECT_THAT(ErrorOf("a.json", R"({"slash_detection": {"skip_first": 1, "skipFirst": 2}})"),
              HasSubstr("twice"));
}

TEST(SpecFile, TakesTheSameJsonKeyInSeparateObjects) {
  EXPECT_EQ(ErrorOf("a.json", R"({"experiments": [{"name": "a"}, {"name": "b"}]})"), "accepted");
}

TEST(SpecFile, RefusesWhatIsNotJson) {
  EXPECT_THAT(ErrorOf("a.json", "{\"name\": \"x\",}"), HasSubstr("line 1, column 14"));
  EXPECT_THAT(ErrorOf("a.json", "{\"slash_detection\": {\"threshold\": NaN}}"), HasSubstr("line 1"));
  EXPECT_NE(ErrorOf("a.json", "{} {}"), "accepted");
  EXPECT_NE(ErrorOf("a.json", "[]"), "accepted");
}

TEST(SpecFile, RefusesAnUnknownJsonField) {
  EXPECT_THAT(ErrorOf("a.json", R"({"slash_detection": {"thresold": 1}})"), HasSubstr("thresold"));
}

TEST(SpecFile, NamesLineAndNearestNameOfAnUnknownJsonField) {
  EXPECT_THAT(
      ErrorOf("a.json", "{\"name\": \"x\",\n \"seed\": [3]}"),
      testing::StartsWith("a.json:2: there is no field \"seed\". Is \"seeds\" meant? Fields there: name, "));
  EXPECT_THAT(
      ErrorOf("a.json", "{\"experiments\": [{\"name\": \"a\"},\n{\"slash_detection\": {\"thresold\": 1}}]}"),
      testing::StartsWith("a.json:2: experiments.1.slash_detection: there is no field \"thresold\". Is "
                          "\"threshold\" meant?"));
}

TEST(SpecFile, SaysWhatBelongsInThePlaceOfAJsonValue) {
  EXPECT_THAT(ErrorOf("a.json", "{\n\n\"dtype\": \"fp16\"}"),
              testing::StartsWith("a.json:3: dtype: \"fp16\": say one of FLOAT32, BFLOAT16, FLOAT16"));
  EXPECT_THAT(ErrorOf("a.json", "{\"dtype\": \"99\"}"),
              testing::StartsWith("a.json:1: dtype: \"99\": say one of "));
  EXPECT_EQ(ErrorOf("a.json", "{\"slash_detection\": {\n\"threshold\": \"high\"}}"),
            "a.json:2: slash_detection.threshold: \"high\": a number belongs there");
  EXPECT_EQ(ErrorOf("a.json", "{\"seeds\": [1,\n -2\n]}"),
            "a.json:2: seeds.1: -2: a whole number from 0 below 2^64 belongs there");
  EXPECT_EQ(ErrorOf("a.json", "{\"seeds\": [1.5]}"),
            "a.json:1: seeds.0: 1.5: a whole number from 0 below 2^64 belongs there");
  EXPECT_EQ(ErrorOf("a.json", "{\"name\": 7}"), "a.json:1: name: 7: a text in quotation marks belongs there");
  EXPECT_EQ(ErrorOf("a.json", "{\"name\": [\"x\"]}"),
            "a.json:1: name: is no list: a text in quotation marks belongs there");
  EXPECT_THAT(ErrorOf("a.json", "{\"slash_detection\": {\"prompts\": \"x\"}}"),
              testing::StartsWith("a.json:1: slash_detection.prompts: \"x\": it holds fields of its own: "
                                  "\"prompts\": { ... }. Fields there: "));
}

TEST(SpecFile, NamesBothOfTwoJsonChoicesOfOnePlace) {
  EXPECT_EQ(ErrorOf("a.json", "{\"slash_detection\": {},\n\"inspection\": {}}"),
            "a.json:2: inspection: cannot stand beside slash_detection: keep one of the two");
}

TEST(SpecFile, TakesAnObjectAloneForAJsonSpec) {
  for (const char* text : {"[]", "3", "null", "\"x\""}) {
    EXPECT_EQ(ErrorOf("a.json", text), "a.json:1: a spec is an object in braces: { ... }") << text;
  }
}

TEST(SpecFile, TakesJsonNumbersInQuotationMarksAndNullForNothing) {
  EXPECT_EQ(
      ErrorOf("a.json", R"({"seeds": ["4", 5.0], "name": null, "slashDetection": {"threshold": "0.5"}})"),
      "accepted");
}

TEST(SpecFile, RefusesDeepNestingInBothLanguages) {
  std::string json = "{\"name\":", text = "slash_detection { prompts ";
  for (int i = 0; i < 100000; ++i) {
    json += '[';
    text += "{ prompts ";
  }
  EXPECT_THAT(ErrorOf("a.json", json), HasSubstr("nested"));
  EXPECT_NE(ErrorOf("a.textproto", text), "accepted");
}

TEST(SpecFile, RefusesEmptyTextAndBytesThatAreNotUtf8) {
  EXPECT_THAT(ErrorOf("a.textproto", " \n"), HasSubstr("empty"));
  EXPECT_THAT(ErrorOf("a.textproto", "name: \"\xC3\x28\""), HasSubstr("byte 7 "));
  EXPECT_EQ(ErrorOf("a.textproto", "name: \"\xE2\x86\x92\""), "accepted");
}

TEST(SpecFile, RefusesAFileLargerThanASpecMayBe) {
  const auto path = std::filesystem::temp_directory_path() / "ropelab_spec_file_test.textproto";
  std::ofstream(path) << std::string(static_cast<size_t>(kMaxSpecBytes) + 1, ' ');
  const auto text = ReadSpecFile(path);
  std::filesystem::remove(path);
  ASSERT_FALSE(text.ok());
  EXPECT_THAT(std::string(text.status().message()), HasSubstr("2097152 bytes"));
}

TEST(SpecFile, NamesAFileThatIsNotThere) {
  EXPECT_THAT(std::string(ReadSpecFile("/nonexistent/a.textproto").status().message()),
              HasSubstr("/nonexistent/a.textproto"));
}

TEST(SpecFile, SaysInsideWhichFieldAMisplacedOneStands) {
  EXPECT_THAT(ErrorOf("a.textproto", "precision_test { needles { } }\n"),
              HasSubstr("\"needles\". It stands inside detection. Fields there: dtypes, detection"));
  EXPECT_THAT(ErrorOf("a.textproto", "inspection { interventions { heads { } zero_head { } } }\n"),
              HasSubstr("It stands inside zero_head or "));
  EXPECT_THAT(ErrorOf("a.textproto", "needles { }\n"), Not(HasSubstr("stands inside")));
}

TEST(SpecFile, SaysWhatBelongsIntoTheBracesThatAreMissing) {
  EXPECT_THAT(
      ErrorOf("a.textproto", "retrieval_detection {\n  needles { haystack: \"generated\" }\n}\n"),
      testing::EndsWith(
          " haystack holds fields of its own, in braces: haystack { ... }. Fields there: corpus, generated"));
  EXPECT_THAT(ErrorOf("a.textproto", "checkpoint_sweep { checkpoints: [\"a\", \"b\"] }\n"),
              testing::EndsWith("checkpoints { ... }. Fields there: model, tokens_seen"));
}

TEST(SpecFile, NamesTheFieldsThereAreForOneThatThereIsNot) {
  const auto parsed = ParseSpec("a.textproto", "slash_detection { treshold: 0.1 }");
  EXPECT_THAT(
      std::string(parsed.status().message()),
      testing::AllOf(testing::HasSubstr("treshold"), testing::HasSubstr("Fields there: prompts, offsets")));
}

TEST(SpecFile, SaysThatTheFileEndsInsideABracket) {
  const auto parsed = ParseSpec("a.textproto", "slash_detection {\n");
  EXPECT_THAT(std::string(parsed.status().message()), testing::HasSubstr("is a } missing?"));
}

}  // namespace
}  // namespace ropelab::client
