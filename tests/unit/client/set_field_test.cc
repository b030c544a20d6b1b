#include "client/set_field.h"

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "ropelab/v1/spec.pb.h"

namespace ropelab::client {
namespace {

using google::protobuf::TextFormat;
using google::protobuf::util::MessageDifferencer;

constexpr char kStudy[] = R"(
  name: "study" model: "m"
  experiments { name: "detect" slash_detection { prompts { sampled { count: 8 } } threshold: 0.1 } }
  experiments { name: "a.b" slash_detection { offsets { first: 1 } } }
)";

template <typename Message>
Message Parsed(const std::string& text) {
  Message message;
  EXPECT_TRUE(TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

struct Case {
  std::string assignment;
  std::string expected;  // the experiment in text format
};

class SetsAField : public testing::TestWithParam<Case> {};

TEST_P(SetsAField, OfAnExperiment) {
  auto spec = Parsed<v1::ExperimentSpec>("name: \"x\" seeds: [1, 2]");
  const absl::Status status = SetField(GetParam().assignment, &spec);
  ASSERT_TRUE(status.ok()) << status;
  const auto expected = Parsed<v1::ExperimentSpec>(GetParam().expected);
  EXPECT_TRUE(MessageDifferencer::Equals(spec, expected)) << spec.DebugString();
}

INSTANTIATE_TEST_SUITE_P(
    SetField, SetsAField,
    testing::Values(
        Case{"name=y = z", "name: 'y = z' seeds: [1, 2]"}, Case{"name=", "seeds: [1, 2]"},
        Case{"dtype=BFLOAT16", "name: 'x' seeds: [1, 2] dtype: BFLOAT16"},
        Case{"seeds=7, 18446744073709551615", "name: 'x' seeds: [7, 18446744073709551615]"},
        Case{"seeds=[7, 8]", "name: 'x' seeds: [7, 8]"}, Case{"seeds=[]", "name: 'x'"},
        Case{"models=[\"a\", \"b\"]", "name: 'x' seeds: [1, 2] models: ['a', 'b']"},
        Case{"seeds=", "name: 'x'"}, Case{"tags=a,b", "name: 'x' seeds: [1, 2] tags: ['a', 'b']"},
        Case{"slash_detection.threshold=2.5e-1",
             "name: 'x' seeds: [1, 2] slash_detection { threshold: 0.25 }"},
        Case{"slash_detection.all_offsets=true",
             "name: 'x' seeds: [1, 2] slash_detection { all_offsets: true }"},
        Case{"slash_detection.offsets.last=-3",
             "name: 'x' seeds: [1, 2] slash_detection { offsets { last: -3 } }"},
        Case{"shallow_training.features=4", "name: 'x' seeds: [1, 2] shallow_training { features: 4 }"},
        Case{"rope_geometry.query=0.5,1", "name: 'x' seeds: [1, 2] rope_geometry { query: [0.5, 1] }"}));

TEST(SetField, FindsExperimentsByNameEvenWithADotAndByIndex) {
  auto study = Parsed<v1::StudySpec>(kStudy);
  ASSERT_TRUE(SetField("experiments.detect.slash_detection.threshold=0.2", &study).ok());
  ASSERT_TRUE(SetField("experiments.a.b.slash_detection.offsets.first=5", &study).ok());
  ASSERT_TRUE(SetField("experiments.0.slash_detection.prompts.sampled.count=16", &study).ok());
  EXPECT_EQ(study.experiments(0).slash_detection().threshold(), 0.2);
  EXPECT_EQ(study.experiments(1).slash_detection().offsets().first(), 5);
  EXPECT_EQ(study.experiments(0).slash_detection().prompts().sampled().count(), 16);
}

TEST(SetField, PutsModelInThePlaceOfModelsAndModelsOfModel) {
  auto spec = Parsed<v1::ExperimentSpec>("models: ['a', 'b']");
  ASSERT_TRUE(SetField("model=c", &spec).ok());
  EXPECT_TRUE(MessageDifferencer::Equals(spec, Parsed<v1::ExperimentSpec>("model: 'c'")))
      << spec.DebugString();
  ASSERT_TRUE(SetField("models=a,b", &spec).ok());
  ASSERT_TRUE(SetField("model=", &spec).ok());
  EXPECT_TRUE(MessageDifferencer::Equals(spec, Parsed<v1::ExperimentSpec>("models: ['a', 'b']")))
      << spec.DebugString();
}

struct WrongCase {
  std::string assignment;
  std::vector<std::string> says;
};

class RefusesToSet : public testing::TestWithParam<WrongCase> {};

TEST_P(RefusesToSet, AndLeavesTheSpecAsItWas) {
  auto study = Parsed<v1::StudySpec>(kStudy);
  const absl::Status status = SetField(GetParam().assignment, &study);
  ASSERT_FALSE(status.ok());
  for (const std::string& part : GetParam().says) {
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(part));
  }
  EXPECT_TRUE(MessageDifferencer::Equals(study, Parsed<v1::StudySpec>(kStudy)));
}

INSTANTIATE_TEST_SUITE_P(
    SetField, RefusesToSet,
    testing::Values(
        WrongCase{"name", {"path=value"}}, WrongCase{"=x", {"path=value"}},
        WrongCase{"nam=x", {"\"nam\"", "name, model"}},
        WrongCase{"experiments.detect.slash_detection.treshold=1",
                  {"\"treshold\"", "experiments.detect.slash_detection", "threshold, skip_first"}},
        WrongCase{"threshold=0.2",
                  {"is this meant: experiments.detect.slash_detection.threshold, "
                   "experiments.a.b.slash_detection.threshold?"}},
        WrongCase{"experiments.detect.count=1",
                  {"is this meant: experiments.detect.slash_detection.prompts.sampled.count?"}},
        WrongCase{"experiments.detct.slash_detection.threshold=1", {"\"detct\"", "detect, a.b"}},
        WrongCase{"experiments.2.slash_detection.threshold=1", {"\"2\"", "0 to 1"}},
        WrongCase{"experiments.detect=1", {"message", "slash_detection"}},
        WrongCase{"experiments=1", {"message"}},
        WrongCase{"experiments.detect.slash_detection=1", {"message", "threshold"}},
        WrongCase{"experiments.a.b.slash_detection.maps.heads.set=1", {"\"set\"", "slash_dominant"}},
        WrongCase{"name.first=1", {"value and has no parts"}},
        WrongCase{"dtype=FLOAT31", {"FLOAT31", "FLOAT32, BFLOAT16, FLOAT16, INT8"}},
        WrongCase{"dtype=UNSPECIFIED", {"FLOAT32"}}, WrongCase{"seeds=-1", {"\"-1\"", "whole number"}},
        WrongCase{"seeds=1,x", {"\"x\""}},
        WrongCase{"experiments.detect.slash_detection.skip_first=1.5", {"\"1.5\"", "whole number"}},
        WrongCase{"experiments.detect.slash_detection.threshold=nan", {"finite"}},
        WrongCase{"experiments.detect.slash_detection.all_offsets=maybe", {"true or false"}},
        WrongCase{"experiments.detect.inspection.dump=logits", {"slash_detection", "inspection"}},
        WrongCase{"experiments.detect.slash_detection.prompts.uniform_tokens.count=4", {"sampled"}}));

}  // namespace
}  // namespace ropelab::client
