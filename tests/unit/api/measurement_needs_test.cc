#include "server/api/measurement_needs.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

namespace ropelab::api {
namespace {

v1::Measurement From(const std::string& kind) {
  v1::Measurement measurement;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"(model { weights_hash: "w" config_hash: "c" tokenizer_hash: "t" } )" + kind, &measurement));
  return measurement;
}

TEST(MeasurementNeeds, TheTokenizerOnlyWhereTextIsRead) {
  for (const char* reads :
       {"slash_profile { prompts { corpus { corpus: \"x\" } } }",
        "slash_profile { prompts { generated { seed: 1 } } }", "text_lengths { corpus: \"x\" }"}) {
    EXPECT_EQ(NeedsOf(From(reads)), (schedule::ModelNeeds{"w", "c", "t"})) << reads;
  }
  for (const char* does_not :
       {"slash_profile { prompts { uniform { seed: 1 } } }",
        "slash_profile { prompts { given { prompts { ids: 1 } } } heads { layer: 1 } removals { pairs: 1 } }",
        "sampling { seed: 1 }", "inspection { token_ids { ids: 1 } dump: \"logits\" }"}) {
    EXPECT_EQ(NeedsOf(From(does_not)), (schedule::ModelNeeds{"w", "c", ""})) << does_not;
  }
}

TEST(MeasurementNeeds, NothingWhereNoModelIs) {
  v1::Measurement measurement;
  measurement.mutable_rope_geometry()->set_head_dim(8);
  EXPECT_TRUE(NeedsOf(measurement).none());
}

}  // namespace
}  // namespace ropelab::api
