// Inspections with low-rank edits against a forward pass in numpy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/engine/fixtures.h"
#include "tests/unit/engine/made_model.h"
#include "tests/unit/measure/condition_numpy_values.h"
#include "tests/unit/measure/condition_request.h"
#include "tests/unit/measure/list_recorder.h"
#include "worker/formats/safetensors.h"

namespace ropelab::measure {
namespace {

using engine::ExpectedTensors;
using engine::FixtureModel;
using engine::Ids;
using engine::LoadFixture;
using testing::HasSubstr;

v1::Measurement Inspect(const std::vector<int32_t>& ids, const std::vector<v1::Intervention>& edits,
                        const char* tensor) {
  v1::Measurement measurement;
  v1::InspectionTensors& inspection = *measurement.mutable_inspection();
  inspection.mutable_token_ids()->mutable_ids()->Add(ids.begin(), ids.end());
  inspection.add_dump(tensor);
  for (const v1::Intervention& edit : edits) *inspection.add_interventions() = edit;
  return measurement;
}

// The one fp32 tensor of the file.
at::Tensor Tensor(const ListRecorder& recorder) {
  const std::string& file = recorder.artifacts.at(0).bytes;
  const auto ranges = formats::ParseSafetensorsHeader(file, "tensors");
  EXPECT_TRUE(ranges.ok()) << ranges.status();
  at::Tensor tensor = at::empty(ranges->at(0).shape, at::kFloat);
  file.copy(static_cast<char*>(tensor.data_ptr()), ranges->at(0).end - ranges->at(0).begin,
            ranges->at(0).begin);
  return tensor;
}

class ConditionInspection : public testing::TestWithParam<int> {
 protected:
  const NumpyConditions& numpy() const { return NumpyConditionValues()[static_cast<size_t>(GetParam())]; }
};

TEST_P(ConditionInspection, LogitsUnderEditsAreNumpys) {
  ROPELAB_NEED_FIXTURE(numpy().fixture);
  const auto model = LoadFixture(numpy().fixture);
  const auto expected = ExpectedTensors(numpy().fixture);
  const std::vector<int32_t> ids = Ids(expected.at("input_ids"));
  const auto edit = LowRank({{0, 1}, {2, 0}, {2, 1}}, 2, {v1::Matrix::QUERY, v1::Matrix::KEY});
  ListRecorder edited, plain;
  ASSERT_TRUE(Measure(Inspect(ids, {edit}, "logits"), model.get(), {}, edited).ok());
  for (size_t id = 0; id < numpy().logits.size(); ++id) {
    EXPECT_NEAR(Tensor(edited)[-1][static_cast<int64_t>(id)].item<float>(), numpy().logits[id], 2e-4) << id;
  }
  // And the model is afterwards what it was.
  ASSERT_TRUE(Measure(Inspect(ids, {}, "logits"), model.get(), {}, plain).ok());
  EXPECT_LE(engine::Distance(Tensor(plain), expected.at("logits")), 2e-4);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, ConditionInspection,
                         testing::Range(0, static_cast<int>(NumpyConditionValues().size())),
                         [](const auto& info) {
                           return std::string(
                               NumpyConditionValues()[static_cast<size_t>(info.param)].fixture);
                         });

// Query rows before RoPE and without a bias or norm after them have the rank of their projection.
TEST(ConditionInspection, AHeadsQueriesHaveTheRankOfItsProjection) {
  const model::LoadedModel model = engine::MadeModel(engine::SmallConfig());
  std::vector<int32_t> ids;
  for (int i = 0; i < 60; ++i) ids.push_back((i * i + 3 * i) % 90);
  ListRecorder recorder;
  ASSERT_TRUE(
      Measure(Inspect(ids, {LowRank({{1, 2}}, 3, {v1::Matrix::QUERY})}, "q_pre"), &model, {}, recorder).ok());
  const at::Tensor values = at::linalg_svdvals(Tensor(recorder).to(at::kDouble));  // [L, H, D]
  EXPECT_LT((values[1][2][3] / values[1][2][0]).item<double>(), 1e-6);
  EXPECT_GT((values[1][2][2] / values[1][2][0]).item<double>(), 1e-2);
  EXPECT_GT((values[1][1][3] / values[1][1][0]).item<double>(), 1e-2);
}

TEST(ConditionInspection, NamesTheEditThatSaysTooLittleAndTheHeadThatIsNotThere) {
  const model::LoadedModel model = engine::MadeModel(engine::SmallConfig());
  ListRecorder recorder;
  v1::Intervention zero;
  zero.mutable_zero_head();
  const auto refusal = [&](const v1::Intervention& edit) {
    const absl::Status status = Measure(Inspect({1}, {edit}, "logits"), &model, {}, recorder).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(refusal(zero), HasSubstr("inspection.interventions[0].zero_head.positions is 0"));
  zero.mutable_zero_head()->set_positions(v1::EditPositions::QUESTION);
  EXPECT_THAT(refusal(zero), HasSubstr("zero_head.positions is QUESTION, which only needle prompts have"));
  EXPECT_THAT(refusal(LowRank({{2, 0}}, 1, {v1::Matrix::KEY})), HasSubstr("L2H0"));
}

}  // namespace
}  // namespace ropelab::measure
