// What ConditionOutcomes and an edited inspection allocate at most, counted beneath libtorch, against what
// they say.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "tests/unit/engine/counted_memory.h"
#include "tests/unit/engine/made_model.h"
#include "tests/unit/measure/condition_request.h"
#include "tests/unit/measure/list_recorder.h"

namespace ropelab::measure {
namespace {

// Which part is the largest decides where the peak lies.
std::vector<formats::ModelConfig> Shapes() {
  formats::ModelConfig wide = engine::SmallConfig(), heads = engine::SmallConfig(),
                       vocabulary = engine::SmallConfig();
  wide.hidden_size = 450;
  heads.head_dim = 96;
  vocabulary.vocabulary = 1500;
  return {engine::SmallConfig(), wide, heads, vocabulary};
}

std::vector<std::pair<int, int>> AllHeads() {
  std::vector<std::pair<int, int>> heads;
  for (int layer = 0; layer < 2; ++layer) {
    for (int head = 0; head < 4; ++head) heads.emplace_back(layer, head);
  }
  return heads;
}

TEST(ConditionMemory, StaysUnderWhatIsSaid) {
  const engine::CountedMemory counted;
  const int threads = at::get_num_threads();
  const std::vector<std::vector<v1::Condition>> sweeps = {
      {ConditionOf({})},
      {ConditionOf({LowRank({{1, 0}}, 2, {kKey})}), ConditionOf({})},
      {ConditionOf({LowRank(AllHeads(), 5, {kQuery, kKey})}), ConditionOf({LowRank({{1, 3}}, 5, {kQuery})})}};
  for (const formats::ModelConfig& config : Shapes()) {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
      const model::LoadedModel model = engine::MadeModel(config, dtype);
      for (const size_t tokens : {size_t{3}, size_t{200}}) {
        for (size_t sweep = 0; sweep < sweeps.size(); ++sweep) {
          at::set_num_threads(sweep == 2 && tokens == 200 && config.hidden_size == 450 ? 2 : 1);
          const v1::Measurement request = ConditionRequest(
              std::vector<std::vector<int32_t>>(2, std::vector<int32_t>(tokens, 7)), sweeps[sweep]);
          const int64_t said = ActivationBytes(request, model).value_or(0);
          ListRecorder recorder;
          const int64_t peak = engine::CountedMemory::Peak(
              [&] { ASSERT_TRUE(Measure(request, &model, {said}, recorder).ok()); });
          const std::string what = "d " + std::to_string(config.hidden_size) + " D " +
                                   std::to_string(config.head_dim) + " V " +
                                   std::to_string(config.vocabulary) + " tokens " + std::to_string(tokens) +
                                   " sweep " + std::to_string(sweep);
          EXPECT_LE(peak, said) << what << " " << dtype;
          EXPECT_GE(16 * peak, said) << what << " " << dtype;
        }
      }
    }
  }
  at::set_num_threads(threads);
}

TEST(ConditionMemory, OfAnInspectionCountsTheEditedCopies) {
  const engine::CountedMemory counted;
  for (const formats::ModelConfig& config : Shapes()) {
    const model::LoadedModel model = engine::MadeModel(config);
    v1::Measurement request;
    v1::InspectionTensors& inspection = *request.mutable_inspection();
    inspection.mutable_token_ids()->add_ids(5);
    inspection.add_dump("logits");
    *inspection.add_interventions() = LowRank(AllHeads(), 5, {kQuery, kKey});
    const int64_t said = ActivationBytes(request, model).value_or(0);
    ListRecorder recorder;
    const int64_t peak =
        engine::CountedMemory::Peak([&] { ASSERT_TRUE(Measure(request, &model, {said}, recorder).ok()); });
    EXPECT_LE(peak, said) << config.hidden_size;
    EXPECT_GE(16 * peak, said) << config.hidden_size;
  }
}

}  // namespace
}  // namespace ropelab::measure
