// Files of head scores, as people publish them.
#include <cmath>
#include <limits>

#include "fakes.h"
#include "server/experiments/head_set_imported.h"

namespace ropelab::experiments {
namespace {

using testing::HasSubstr;

std::vector<std::string> Shown(const std::string& content) {
  const auto heads = ParseHeadScores(content);
  EXPECT_TRUE(heads.ok()) << heads.status();
  std::vector<std::string> shown;
  for (const ImportedScores::Head& head : heads.ok() ? *heads : std::vector<ImportedScores::Head>()) {
    shown.push_back(absl::StrCat("L", head.layer, "H", head.head, " ", head.mean, " of ", head.scores));
  }
  return shown;
}

std::string Refused(const std::string& content) {
  const auto heads = ParseHeadScores(content);
  EXPECT_EQ(heads.status().code(), absl::StatusCode::kInvalidArgument) << content.substr(0, 100);
  return std::string(heads.status().message());
}

TEST(HeadScoresFile, HeadsStandInOrderWithTheirMeans) {
  EXPECT_THAT(Shown(R"({"1-2": [0.5, 0.25], "0-10": [1, 0, 0, 1], "0-9": [2e-1]})"),
              testing::ElementsAre("L0H9 0.2 of 1", "L0H10 0.5 of 4", "L1H2 0.375 of 2"));
}

TEST(HeadScoresFile, ANumberAloneAndListsOfListsAreRead) {
  EXPECT_THAT(Shown(R"({"0-0": 0.5, "0-1": [[0.1], [0.2, 0.3]], "0-2": [-1]})"),
              testing::ElementsAre("L0H0 0.5 of 1", "L0H1 0.2 of 3", "L0H2 -1 of 1"));
}

TEST(HeadScoresFile, WhatIsNoHeadIsRefusedByItsKey) {
  for (const char* key :
       {"12", "a-1", "1-", "-1-2", "1-2-3", "01-2", "1-02", " 1-2", "1_2", "10000-1", "", "L1H2", "1.0-2"}) {
    EXPECT_THAT(Refused(absl::StrCat("{\"", key, "\": [1]}")),
                HasSubstr(absl::StrCat("\"", key, "\": the key is no \"layer-head\"")));
  }
  EXPECT_THAT(Refused(R"({"0-1": [1], "0-1": [2]})"), HasSubstr("\"0-1\": the key is given twice"));
}

TEST(HeadScoresFile, WhatIsNoScoreIsRefusedByItsHead) {
  EXPECT_THAT(Refused(R"({"3-4": []})"), HasSubstr("\"3-4\": the list is empty"));
  EXPECT_THAT(Refused(R"({"3-4": [1, []]})"), HasSubstr("\"3-4\": the list is empty"));
  EXPECT_THAT(Refused(R"({"3-4": ["0.5"]})"), HasSubstr("\"3-4\": \"0.5\" is a text"));
  EXPECT_THAT(Refused(R"({"3-4": [null]})"), HasSubstr("\"3-4\": null is no score"));
  EXPECT_THAT(Refused(R"({"3-4": [true]})"), HasSubstr("\"3-4\": true and false are no scores"));
  EXPECT_THAT(Refused(R"({"3-4": {"mean": 1}})"), HasSubstr("\"3-4\": an object"));
  EXPECT_THAT(Refused(R"({"3-4": [[[[[[[[[1]]]]]]]]]})"), HasSubstr("nested deeper"));
  EXPECT_THAT(Refused(R"({"3-4": [1e308, 1e308]})"), HasSubstr("\"3-4\": the sum"));
  EXPECT_THAT(Refused(R"({"3-4": [1e999]})"), HasSubstr("number overflow"));
}

TEST(HeadScoresFile, WhatIsNoJsonIsRefusedWithItsPlace) {
  EXPECT_THAT(Refused("{\"0-0\": [0.5,\n NaN]}"),
              testing::AllOf(HasSubstr("line 2"), HasSubstr("NaN and Infinity are no scores")));
  EXPECT_THAT(Refused("{\"0-0\": [-Infinity]}"), HasSubstr("NaN and Infinity are no scores"));
  EXPECT_THAT(Refused("{'0-0': [0.5]}"), HasSubstr("write it with json.dump"));
  EXPECT_THAT(Refused("{\"0-0\": array([0.5])}"), HasSubstr(".tolist()"));
  EXPECT_THAT(Refused("{\"0-0\": [0.5]"), HasSubstr("is no JSON"));
  EXPECT_THAT(Refused("{\"0-0\": [0.5]} {\"0-1\": [0.5]}"), HasSubstr("is no JSON"));
  EXPECT_THAT(Refused(""), HasSubstr("is no JSON"));
  EXPECT_THAT(Refused("[1, 2]"), HasSubstr("a file of head scores is JSON"));
  EXPECT_THAT(Refused("7"), HasSubstr("a file of head scores is JSON"));
  EXPECT_THAT(Refused("{}"), HasSubstr("names no head"));
  std::string nul("{\"0-0\": [1]}\0", 14);
  nul += " {\"0-1\": [1]}";
  EXPECT_THAT(Refused(nul), HasSubstr("a NUL byte"));
}

TEST(HeadScoresFile, WhatIsTooLargeIsRefusedWithBothNumbers) {
  std::string content = "{\"0-0\": [1" + std::string(kLargestHeadScores, ' ') + "]}";
  EXPECT_THAT(Refused(content),
              HasSubstr(absl::StrCat("has ", content.size(), " bytes; at most ", kLargestHeadScores)));
}

TEST(HeadScoresFile, NamesAreOneLineOfTextWithoutHash) {
  EXPECT_TRUE(CheckHeadScoresName("llama-2 7b").ok());
  for (const char* name : {"", "a/b", "a@b", " a", "a ", "a\nb"}) {
    EXPECT_EQ(CheckHeadScoresName(name).code(), absl::StatusCode::kInvalidArgument) << name;
  }
}

}  // namespace
}  // namespace ropelab::experiments
