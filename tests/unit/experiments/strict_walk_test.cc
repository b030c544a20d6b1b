#include "server/experiments/strict_walk.h"

#include <limits>

#include "common/printable.h"
#include "fakes.h"

namespace ropelab::experiments {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kGood[] =
    "name: 'x' model: 'toy' slash_detection { prompts { uniform_tokens { count: 8 tokens: 64 } } }";

TEST(StrictWalk, PassesAWellFormedSpec) {
  EXPECT_THAT(ProblemsOf(kGood), IsEmpty());
}

TEST(StrictWalk, NamesAnUnknownFieldOfABinarySpecAtItsDepth) {
  v1::Submission submission = ExperimentOf(kGood);
  auto* detection = submission.mutable_experiment()->mutable_slash_detection();
  detection->GetReflection()->MutableUnknownFields(detection)->AddVarint(99, 1);
  auto* uniform = detection->mutable_prompts()->mutable_uniform_tokens();
  uniform->GetReflection()->MutableUnknownFields(uniform)->AddLengthDelimited(77, "abc");
  v1::Submission travelled;
  ASSERT_TRUE(travelled.ParseFromString(submission.SerializeAsString()));
  EXPECT_THAT(
      ProblemsOf(travelled),
      ElementsAre(
          HasSubstr("slash_detection.prompts.uniform_tokens.#77: this version knows no field number 77"),
          HasSubstr("slash_detection.#99: this version knows no field number 99 of SlashDetection")));
}

TEST(StrictWalk, NamesAnUnknownFieldOfTheSubmissionAndOfTheStudy) {
  v1::Submission submission = StudyOf(std::string("experiments { ") + kGood + " }");
  submission.GetReflection()->MutableUnknownFields(&submission)->AddVarint(9, 1);
  auto* study = submission.mutable_study();
  study->GetReflection()->MutableUnknownFields(study)->AddVarint(50, 1);
  EXPECT_THAT(ProblemsOf(submission), ElementsAre(HasSubstr("#9: "), HasSubstr("#50: ")));
}

TEST(StrictWalk, RefusesUnspecifiedThatWasTyped) {
  EXPECT_THAT(
      ProblemsOf("name: 'x' model: 'toy' priority: UNSPECIFIED slash_detection { rows: UNSPECIFIED "
                 "prompts { uniform_tokens { count: 8 tokens: 64 } } }"),
      ElementsAre(
          HasSubstr("priority: leave the field out for its default, or say one of NORMAL"),
          HasSubstr("slash_detection.rows: leave the field out for its default, or say one of ALL, COMMON")));
}

TEST(StrictWalk, RefusesUnspecifiedInARepeatedField) {
  EXPECT_THAT(ProblemsOf("name: 'x' model: 'toy' retrieval_detection { metrics: [ARGMAX, UNSPECIFIED] }"),
              testing::Contains(HasSubstr("retrieval_detection.metrics[1]: leave the field out")));
}

TEST(StrictWalk, RefusesEnumNumbersWithoutAName) {
  v1::Submission submission = ExperimentOf(kGood);
  submission.mutable_experiment()->set_dtype(static_cast<v1::Dtype::Value>(17));
  EXPECT_THAT(
      ProblemsOf(submission),
      ElementsAre(HasSubstr("dtype: is the number of no value known here; say one of FLOAT32, BFLOAT16")));
}

TEST(StrictWalk, RefusesNumbersThatAreNotFinite) {
  EXPECT_THAT(ProblemsOf("name: 'x' rope_geometry { base: inf query: [1, 1, 1, 1, 1, 1, 1, nan] "
                         "key: [1, 1, 1, 1, 1, 1, 1, 1] }"),
              ElementsAre(HasSubstr("rope_geometry.base: is not a finite number"),
                          HasSubstr("rope_geometry.query[7]: is not a finite number")));
}

TEST(StrictWalk, RefusesTextThatIsNoText) {
  v1::Submission submission = ExperimentOf(kGood);
  submission.mutable_experiment()->add_tags(std::string("a\0b", 3));
  submission.mutable_experiment()->add_tags("\xff\xfe");
  submission.mutable_experiment()->add_tags(std::string(kLongestString + 1, 'a'));
  EXPECT_THAT(ProblemsOf(submission),
              ElementsAre(HasSubstr("tags[0]: holds a NUL"), HasSubstr("tags[1]: is not UTF-8"),
                          HasSubstr("tags[2]: is longer than a text may be")));
}

TEST(StrictWalk, RefusesASpecOverTwoMebibytes) {
  v1::Submission submission = ExperimentOf(kGood);
  auto* ids = submission.mutable_experiment()
                  ->mutable_slash_detection()
                  ->mutable_prompts()
                  ->mutable_token_ids()
                  ->add_prompts();
  for (int i = 0; i < 1100000; ++i) {
    ids->add_ids(1000);  // two bytes each
  }
  EXPECT_THAT(ProblemsOf(submission), ElementsAre(HasSubstr("the spec is too large; at most 2097152 bytes")));
}

// The bytes are the Unicode standard's own examples of well-formed and ill-formed sequences (table 3-7).
TEST(StrictWalk, KnowsUtf8) {
  for (const char* good : {"", "a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(IsUtf8(good)) << good;
  }
  for (const char* bad :
       {"\x80", "\xc0\xaf", "\xe0\x9f\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf0\x9f\x98",
        "\xc3"
        "a"}) {
    EXPECT_FALSE(IsUtf8(bad));
  }
}

}  // namespace
}  // namespace ropelab::experiments
