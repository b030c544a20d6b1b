#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/engine/fixtures.h"
#include "tests/unit/measure/list_recorder.h"
#include "worker/formats/safetensors.h"

namespace ropelab::measure {
namespace {

using engine::FixtureModel;
using engine::LoadFixture;

v1::Measurement Request(std::initializer_list<int32_t> ids, std::initializer_list<const char*> names) {
  v1::Measurement measurement;
  for (int32_t id : ids) measurement.mutable_inspection()->mutable_token_ids()->add_ids(id);
  for (const char* name : names) measurement.mutable_inspection()->add_dump(name);
  return measurement;
}

TEST(Inspection, WritesTheTensorsThatWereAskedForWithTheirShapes) {
  ROPELAB_NEED_FIXTURE("llama3_a");
  ListRecorder recorder;
  const auto outcome = Measure(
      Request({1, 5, 9}, {"attn_probs", "hidden", "input_ids", "inv_freq", "k_rot", "logits", "q_pre"}),
      LoadFixture("llama3_a").get(), {}, recorder);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  ASSERT_EQ(recorder.artifacts.size(), 1u);
  EXPECT_EQ(recorder.artifacts[0].name, "tensors.safetensors");
  EXPECT_EQ(recorder.readings[0].inspected().artifact(), "tensors.safetensors");
  EXPECT_THAT(recorder.readings[0].inspected().tensors(),
              testing::UnorderedElementsAre("attn_probs", "hidden", "input_ids", "inv_freq", "k_rot",
                                            "logits", "q_pre"));
  const auto ranges = formats::ParseSafetensorsHeader(recorder.artifacts[0].bytes, "tensors");
  ASSERT_TRUE(ranges.ok()) << ranges.status();
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const auto& range : *ranges) {
    shapes[range.name] = range.shape;
    EXPECT_EQ(range.dtype, range.name == "input_ids" ? "I64" : "F32");
  }
  const std::map<std::string, std::vector<int64_t>> expected = {
      {"attn_probs", {3, 4, 3, 3}}, {"hidden", {4, 3, 64}}, {"input_ids", {3}},      {"inv_freq", {8}},
      {"k_rot", {3, 2, 3, 16}},     {"logits", {3, 144}},   {"q_pre", {3, 4, 3, 16}}};
  EXPECT_EQ(shapes, expected);
}

TEST(Inspection, NamesAnUnknownTensorAndTheKnownOnes) {
  ROPELAB_NEED_FIXTURE("llama3_a");
  ListRecorder recorder;
  const auto status =
      Measure(Request({1}, {"attention"}), LoadFixture("llama3_a").get(), {}, recorder).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(testing::HasSubstr("'attention'"), testing::HasSubstr("attn_probs")));
}

TEST(Measure, RefusesATaskWithoutAKnownMeasurementAndOneWithoutItsModel) {
  ListRecorder recorder;
  EXPECT_EQ(Measure({}, nullptr, {}, recorder).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Measure(Request({1}, {"logits"}), nullptr, {}, recorder).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace ropelab::measure
