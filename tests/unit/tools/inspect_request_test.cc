#include "worker/tools/inspect_request.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <fstream>

namespace ropelab::tools {
namespace {

std::string File(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path) << text;
  return path;
}

TEST(ReadTokenIds, TakesCommasWhiteSpaceAndBrackets) {
  for (const char* text : {"1,403,7", "1 403\n7\n", "[1, 403, 7]"}) {
    const auto ids = ReadTokenIds(text);
    ASSERT_TRUE(ids.ok()) << text;
    EXPECT_THAT(ids->ids(), testing::ElementsAre(1, 403, 7)) << text;
  }
}

TEST(ReadTokenIds, NamesWhatIsNoInteger) {
  for (const char* bad : {"x", "1.5", "3000000000", "7a"}) {
    const auto ids = ReadTokenIds(std::string("1,") + bad);
    EXPECT_EQ(ids.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(ids.status().message()), testing::HasSubstr(std::string("'") + bad + "'"));
  }
}

TEST(ReadInspectionSpec, ReadsTextAndJson) {
  const std::string text = File(
      "a.textproto", "name: \"x\" dtype: FLOAT16 inspection { token_ids { ids: [1, 2] } dump: \"logits\" }");
  const std::string json =
      File("a.json", R"({"name": "x", "inspection": {"tokenIds": {"ids": [1, 2]}, "dump": ["logits"]}})");
  for (const std::string& path : {text, json}) {
    const auto spec = ReadInspectionSpec(path);
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_THAT(spec->inspection().token_ids().ids(), testing::ElementsAre(1, 2));
    EXPECT_THAT(spec->inspection().dump(), testing::ElementsAre("logits"));
  }
}

TEST(ReadInspectionSpec, WritesOutWhatAnInterventionLeavesOut) {
  const auto spec = ReadInspectionSpec(
      File("e.textproto",
           "inspection { token_ids { ids: 1 } dump: \"logits\" "
           "interventions { low_rank { rank: 2 } } interventions { low_rank { rank: 2 matrices: KEY } } "
           "interventions { unrotate {} } interventions { zero_head { position_range { first: 1 } } } "
           "interventions { zero_dims { dims: 3 } } "
           "interventions { scale_dims { target: BOTH stage: POST_ROPE positions: QUESTION } } }"));
  ASSERT_TRUE(spec.ok()) << spec.status();
  v1::ExperimentSpec expected;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "inspection { token_ids { ids: 1 } dump: \"logits\" "
      "interventions { low_rank { rank: 2 matrices: [QUERY, KEY] } } "
      "interventions { low_rank { rank: 2 matrices: KEY } } "
      "interventions { unrotate { positions: ALL } } "
      "interventions { zero_head { position_range { first: 1 } } } "
      "interventions { zero_dims { dims: 3 target: QUERY stage: PRE_ROPE positions: ALL } } "
      "interventions { scale_dims { target: BOTH stage: POST_ROPE positions: QUESTION } } }",
      &expected));
  EXPECT_EQ(spec->DebugString(), expected.DebugString());
}

TEST(ReadInspectionSpec, SaysWhatIsWrongAndWhere) {
  const auto message = [](const std::string& path) {
    return std::string(ReadInspectionSpec(path).status().message());
  };
  EXPECT_THAT(message(File("b.textproto", "name: \"x\"\ncolour: 3\n")), testing::HasSubstr("line 2"));
  EXPECT_THAT(message(File("c.textproto", "name: \"x\"\n")), testing::HasSubstr("no inspection"));
  EXPECT_THAT(message(File("d.json", R"({"colour": 3})")), testing::HasSubstr("colour"));
  EXPECT_THAT(message("/no/such/file"), testing::HasSubstr("/no/such/file"));
}

}  // namespace
}  // namespace ropelab::tools
