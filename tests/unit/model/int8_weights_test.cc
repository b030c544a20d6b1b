// Rounding to int8 against numpy's integers (numpy.rint of fp32 quotients), and what is loaded in it.
#include "worker/model/int8_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "tests/unit/absent.h"
#include "tests/unit/formats/temporary_directory.h"
#include "tests/unit/model/fixture.h"
#include "worker/formats/safetensors_writer.h"

namespace ropelab::model {
namespace {

using ::ropelab::unit::TemporaryDirectory;
using ::testing::HasSubstr;

at::Tensor Rows(std::vector<float> values, int64_t columns) {
  const auto count = static_cast<int64_t>(values.size());
  return at::tensor(at::ArrayRef<float>(values), at::kFloat).view({count / columns, columns});
}

std::vector<int> Integers(const at::Tensor& values) {
  const at::Tensor flat = values.to(at::kInt).flatten().contiguous();
  return {flat.data_ptr<int>(), flat.data_ptr<int>() + flat.numel()};
}

TEST(Int8Weights, RoundsHalfToEvenAndKeepsARowOfZeros) {
  const Int8Rows rows = RoundToInt8(Rows({127,  0.5f,  1.5f,  2.5f,    -0.5f,  -1.5f,    //
                                          0,    0,     0,     0,       0,      0,        //
                                          1e-3, -2e-3, 3e-3,  0.7e-3f, -0.01f, 0.0051f,  //
                                          -300, 299,   1.19f, 3.54f,   -3.55f, 0},
                                         6));
  ASSERT_EQ(rows.values.scalar_type(), at::kChar);
  EXPECT_EQ(Integers(rows.values), (std::vector<int>{127,  0,   2,  2, 0,    -2,  //
                                                     0,    0,   0,  0, 0,    0,   //
                                                     13,   -25, 38, 9, -127, 65,  //
                                                     -127, 127, 1,  1, -2,   0}));
  ASSERT_EQ(rows.scale.scalar_type(), at::kFloat);
  const std::vector<float> scale = {1, 0, 0x1.4a429ap-14f, 0x1.2e5cbap+1f};
  EXPECT_TRUE(at::equal(rows.scale, at::tensor(at::ArrayRef<float>(scale), at::kFloat)));
}

TEST(Int8Weights, ARowTooSmallForAScaleBecomesZerosAndNoneLeavesTheRange) {
  const float least = std::numeric_limits<float>::denorm_min();
  const Int8Rows rows = RoundToInt8(Rows({least, -least,       //
                                          180 * least, least,  //
                                          std::numeric_limits<float>::max(), 1},
                                         2));
  const std::vector<int> integers = Integers(rows.values);
  EXPECT_EQ(integers[0], 0);
  EXPECT_EQ(integers[1], 0);
  EXPECT_EQ(integers[2], 127);  // 180 of a scale that rounded to 1
  EXPECT_EQ(integers[3], 1);
  EXPECT_EQ(integers[4], 127);
  EXPECT_EQ(integers[5], 0);
}

TEST(Int8Weights, WidensARangeOfRowsByItsOwnScales) {
  const at::Tensor weight = Rows({1, -2, 3, 4, -5, 127}, 2).to(at::kChar);
  const at::Tensor scale = Rows({0.5f, 0.25f, 0}, 3).view({3});
  EXPECT_TRUE(at::equal(WidenedRows(weight, scale, 0, 2), Rows({0.5f, -1, 0.75f, 1}, 2)));
  EXPECT_TRUE(at::equal(WidenedRows(weight, scale, 2, 1), Rows({0, 0}, 2)));
  const at::Tensor plain = Rows({1, 2, 3, 4}, 2);
  EXPECT_EQ(WidenedRows(plain, {}, 1, 1).data_ptr<float>(), plain.data_ptr<float>() + 2);
}

struct NumpyInt8 {
  const char* fixture;
  int64_t weighted;  // sum over all projections of each integer times (its place in the tensor % 97 + 1)
  double scales;     // sum of all scales
};

class Int8Fixtures : public ::testing::TestWithParam<NumpyInt8> {};

TEST_P(Int8Fixtures, AreNumpysIntegersAndScales) {
  const std::string directory = Fixture(GetParam().fixture);
  if (!std::filesystem::exists(directory)) ROPELAB_ABSENT(directory + " (ROPELAB_FIXTURES)");
  const auto model = LoadModel(directory, kInt8Weights, at::kCPU, 0, [](int64_t, int64_t) {});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->dtype, at::kFloat);
  EXPECT_EQ((*model)->weights.embedding.scalar_type(), at::kFloat);
  EXPECT_EQ((*model)->weights.lm_head.scalar_type(), at::kFloat);
  int64_t weighted = 0;
  double scales = 0;
  for (const LayerWeights& layer : (*model)->weights.layers) {
    for (const ScaledProjection& projection : kScaledProjections) {
      const at::Tensor& values = layer.*projection.weight;
      ASSERT_EQ(values.scalar_type(), at::kChar);
      const std::vector<int> integers = Integers(values);
      for (size_t i = 0; i < integers.size(); ++i) {
        weighted += integers[i] * static_cast<int64_t>(i % 97 + 1);
      }
      scales += (layer.*projection.scale).to(at::kDouble).sum().item<double>();
    }
  }
  EXPECT_EQ(weighted, GetParam().weighted);
  EXPECT_NEAR(scales, GetParam().scales, 1e-12);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, Int8Fixtures,
                         ::testing::Values(NumpyInt8{"llama3_a", -323511, 5.8319454859010875},
                                           NumpyInt8{"qwen2f16_a", 2446299, 4.709607227821834},
                                           NumpyInt8{"llama3bf16_a", 844368, 5.818805352086201},
                                           NumpyInt8{"gemma2_a", -482023, 5.771980562130921}),
                         [](const auto& info) { return std::string(info.param.fixture); });

constexpr char kConfigOfOnes[] =
    R"({"model_type":"llama","hidden_size":2,"num_hidden_layers":1,"num_attention_heads":1,
  "intermediate_size":3,"vocab_size":3,"torch_dtype":"float32","tie_word_embeddings":true,"eos_token_id":2})";

formats::NamedTensor Ones(const std::string& name, std::vector<int64_t> shape) {
  int64_t count = 1;
  for (const int64_t dimension : shape) count *= dimension;
  const std::vector<float> values(static_cast<size_t>(count), 1.0f);
  return {name, "F32", std::move(shape),
          std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float))};
}

std::vector<formats::NamedTensor> TensorsOfOnes() {
  const std::string layer = "model.layers.0.";
  return {Ones("model.embed_tokens.weight", {3, 2}),
          Ones(layer + "input_layernorm.weight", {2}),
          Ones(layer + "self_attn.q_proj.weight", {2, 2}),
          Ones(layer + "self_attn.k_proj.weight", {2, 2}),
          Ones(layer + "self_attn.v_proj.weight", {2, 2}),
          Ones(layer + "self_attn.o_proj.weight", {2, 2}),
          Ones(layer + "post_attention_layernorm.weight", {2}),
          Ones(layer + "mlp.gate_proj.weight", {3, 2}),
          Ones(layer + "mlp.up_proj.weight", {3, 2}),
          Ones(layer + "mlp.down_proj.weight", {2, 3}),
          Ones("model.norm.weight", {2})};
}

TEST(Int8Weights, TakeAByteAnElementAndAScaleARow) {
  TemporaryDirectory directory;
  directory.Write("config.json", kConfigOfOnes);
  ASSERT_TRUE(formats::WriteSafetensors(directory.File("model.safetensors"), TensorsOfOnes()).ok());
  const int64_t projections = 4 * 4 + 3 * 6, rows = 4 * 2 + 2 * 3 + 2, wide = 6 + 3 * 2;
  const int64_t bytes = projections + 4 * rows + 4 * wide;
  EXPECT_EQ(*ModelBytes(directory.path(), kInt8Weights), bytes);
  const auto load = [&](int64_t limit) {
    return LoadModel(directory.path(), kInt8Weights, at::kCPU, limit, [](int64_t, int64_t) {});
  };
  const auto model = load(bytes);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->bytes, bytes);
  EXPECT_EQ(WidenedBytes((*model)->weights), 4 * projections);
  const LayerWeights wider = Widened((*model)->weights.layers[0]);
  EXPECT_FALSE(wider.down_scale.defined());
  EXPECT_TRUE(at::allclose(wider.down, at::ones({2, 3}), 1e-6));
  EXPECT_EQ(load(bytes - 1).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(Int8Weights, RefusesWhatIsNotFiniteAndNamesTheTensor) {
  TemporaryDirectory directory;
  directory.Write("config.json", kConfigOfOnes);
  std::vector<formats::NamedTensor> tensors = TensorsOfOnes();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(tensors[9].bytes.data() + 20, &nan, sizeof(nan));
  ASSERT_TRUE(formats::WriteSafetensors(directory.File("model.safetensors"), tensors).ok());
  const absl::Status status =
      LoadModel(directory.path(), kInt8Weights, at::kCPU, 0, [](int64_t, int64_t) {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("down_proj.weight holds NaN"));
}

}  // namespace
}  // namespace ropelab::model
