#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "tests/unit/absent.h"
#include "tests/unit/formats/temporary_directory.h"
#include "tests/unit/model/fixture.h"
#include "worker/formats/plant.h"
#include "worker/formats/safetensors_writer.h"
#include "worker/model/loaded_model.h"

namespace ropelab::model {
namespace {

using ::ropelab::unit::TemporaryDirectory;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

void Silent(int64_t, int64_t) {}

absl::StatusOr<std::shared_ptr<const LoadedModel>> Load(const std::string& directory,
                                                        at::ScalarType dtype = at::kFloat,
                                                        int64_t limit = 0) {
  return LoadModel(directory, dtype, at::kCPU, limit, Silent);
}

#define SKIP_WITHOUT_FIXTURE(name)                         \
  if (!std::filesystem::exists(Fixture(name))) {           \
    ROPELAB_ABSENT(Fixture(name) + " (ROPELAB_FIXTURES)"); \
  }

constexpr char kConfig[] =
    R"({"model_type":"llama","hidden_size":2,"num_hidden_layers":1,"num_attention_heads":1,
  "intermediate_size":2,"vocab_size":3,"torch_dtype":"float32","tie_word_embeddings":true,"eos_token_id":2})";

formats::NamedTensor Floats(const std::string& name, std::vector<int64_t> shape, float first) {
  int64_t count = 1;
  for (const int64_t dimension : shape) count *= dimension;
  std::string bytes;
  for (int64_t i = 0; i < count; ++i) {
    const float value = first + static_cast<float>(i);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  return {name, "F32", std::move(shape), bytes};
}

// A model of one layer, one head and D = 2, values that count upwards.
std::vector<formats::NamedTensor> TinyTensors() {
  const std::string layer = "model.layers.0.";
  return {Floats("model.embed_tokens.weight", {3, 2}, 1),
          Floats(layer + "input_layernorm.weight", {2}, 2),
          Floats(layer + "self_attn.q_proj.weight", {2, 2}, 3),
          Floats(layer + "self_attn.k_proj.weight", {2, 2}, 4),
          Floats(layer + "self_attn.v_proj.weight", {2, 2}, 5),
          Floats(layer + "self_attn.o_proj.weight", {2, 2}, 6),
          Floats(layer + "post_attention_layernorm.weight", {2}, 7),
          Floats(layer + "mlp.gate_proj.weight", {2, 2}, 8),
          Floats(layer + "mlp.up_proj.weight", {2, 2}, 9),
          Floats(layer + "mlp.down_proj.weight", {2, 2}, 10),
          Floats("model.norm.weight", {2}, 11)};
}

void WriteTiny(const TemporaryDirectory& directory, const std::vector<formats::NamedTensor>& tensors) {
  directory.Write("config.json", kConfig);
  ASSERT_TRUE(formats::WriteSafetensors(directory.File("model.safetensors"), tensors).ok());
}

TEST(LoadModel, PutsEveryTensorInItsPlace) {
  TemporaryDirectory directory;
  WriteTiny(directory, TinyTensors());
  const auto model = Load(directory.path());
  ASSERT_TRUE(model.ok()) << model.status();
  const Weights& weights = (*model)->weights;
  ASSERT_EQ(weights.layers.size(), 1u);
  const LayerWeights& layer = weights.layers[0];
  const auto first = [](const at::Tensor& tensor) { return tensor.view({-1})[0].item<float>(); };
  EXPECT_THAT(
      (std::vector<float>{first(weights.embedding), first(layer.attention_norm), first(layer.query),
                          first(layer.key), first(layer.value), first(layer.output), first(layer.mlp_norm),
                          first(layer.gate), first(layer.up), first(layer.down), first(weights.final_norm)}),
      ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_FALSE(layer.query_bias.defined());
  EXPECT_TRUE(weights.lm_head.is_same(weights.embedding));
  EXPECT_EQ((*model)->bytes, (6 + 3 * 2 + 7 * 4) * 4);
}

TEST(LoadModel, AlignsEveryTensorAlike) {
  TemporaryDirectory directory;
  std::vector<formats::NamedTensor> tensors = TinyTensors();
  // An odd byte first, and everything after it is unaligned.
  tensors.insert(tensors.begin(),
                 formats::NamedTensor{"model.layers.0.self_attn.rotary_emb.inv_freq", "U8", {1}, "x"});
  WriteTiny(directory, tensors);
  const auto model = Load(directory.path());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->weights.final_norm[1].item<float>(), 12);
  for (const at::Tensor& tensor :
       {(*model)->weights.embedding, (*model)->weights.layers[0].query, (*model)->weights.final_norm}) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data_ptr()) % 64, 0u);
    EXPECT_TRUE(tensor.is_contiguous());
  }
}

TEST(LoadModel, KeepsTheMappingAliveAfterTheFileIsGone) {
  TemporaryDirectory directory;
  WriteTiny(directory, TinyTensors());
  const auto model = Load(directory.path());
  ASSERT_TRUE(model.ok()) << model.status();
  std::filesystem::remove(directory.File("model.safetensors"));
  EXPECT_EQ((*model)->weights.embedding.sum().item<float>(), 21);
}

TEST(LoadModel, ReadsTheSharedMatrixUnderEitherTiedName) {
  TemporaryDirectory directory;
  std::vector<formats::NamedTensor> tensors = TinyTensors();
  tensors[0].name = "lm_head.weight";
  WriteTiny(directory, tensors);
  const auto model = Load(directory.path());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->weights.embedding.sum().item<float>(), 21);
}

TEST(LoadModel, ReadsACheckpointThatStoresTheSharedMatrixTwice) {
  TemporaryDirectory directory;
  std::vector<formats::NamedTensor> tensors = TinyTensors();
  tensors.push_back(Floats("lm_head.weight", {3, 2}, 1));
  WriteTiny(directory, tensors);
  const auto model = Load(directory.path());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_TRUE((*model)->weights.lm_head.is_same((*model)->weights.embedding));
}

// transformers 4 would compute with the embedding, transformers 5 with lm_head.
TEST(LoadModel, RefusesTwoTiedMatricesThatDiffer) {
  TemporaryDirectory directory;
  std::vector<formats::NamedTensor> tensors = TinyTensors();
  formats::NamedTensor other = Floats("lm_head.weight", {3, 2}, 1);
  other.bytes.back() ^= 1;
  for (const formats::NamedTensor& output : {other, Floats("lm_head.weight", {2, 3}, 1)}) {
    tensors.push_back(output);
    WriteTiny(directory, tensors);
    tensors.pop_back();
    const absl::Status status = Load(directory.path()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(
        std::string(status.message()),
        AllOf(HasSubstr("model.safetensors: tensor lm_head.weight differs from model.embed_tokens.weight"),
              HasSubstr("tie_word_embeddings")));
  }
}

TEST(ModelBytes, RefusesTwoTiedMatricesOfTwoShapes) {
  TemporaryDirectory directory;
  std::vector<formats::NamedTensor> tensors = TinyTensors();
  tensors.push_back(Floats("lm_head.weight", {2, 2}, 1));
  WriteTiny(directory, tensors);
  EXPECT_THAT(std::string(ModelBytes(directory.path(), at::kFloat).status().message()),
              HasSubstr("tensor lm_head.weight differs from model.embed_tokens.weight"));
}

TEST(LoadModel, RoundsToTheWantedDtype) {
  TemporaryDirectory directory;
  std::vector<formats::NamedTensor> tensors = TinyTensors();
  const float value = 1.01f;  // bfloat16 has 1.0078125 and 1.015625 around it
  std::memcpy(tensors[0].bytes.data(), &value, sizeof(value));
  WriteTiny(directory, tensors);
  const auto model = Load(directory.path(), at::kBFloat16);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->weights.embedding.scalar_type(), at::kBFloat16);
  EXPECT_EQ((*model)->weights.embedding[0][0].item<float>(), 1.0078125f);
  EXPECT_EQ((*model)->weights.layers[0].attention_norm.scalar_type(), at::kBFloat16);
}

void ExpectRefused(const std::vector<formats::NamedTensor>& tensors, std::initializer_list<const char*> words,
                   at::ScalarType dtype = at::kFloat) {
  TemporaryDirectory directory;
  WriteTiny(directory, tensors);
  const auto model = Load(directory.path(), dtype);
  ASSERT_FALSE(model.ok());
  for (const char* word : words) EXPECT_THAT(std::string(model.status().message()), HasSubstr(word));
}

TEST(LoadModel, RefusesNaNAndNamesFileAndTensor) {
  std::vector<formats::NamedTensor> tensors = TinyTensors();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(tensors[4].bytes.data() + 8, &nan, sizeof(nan));
  ExpectRefused(tensors, {"model.safetensors", "v_proj.weight", "NaN"});
}

TEST(LoadModel, RefusesInfinity) {
  std::vector<formats::NamedTensor> tensors = TinyTensors();
  const float infinity = -std::numeric_limits<float>::infinity();
  std::memcpy(tensors[10].bytes.data(), &infinity, sizeof(infinity));
  ExpectRefused(tensors, {"model.norm.weight", "infinity"}, at::kBFloat16);
}

TEST(LoadModel, RefusesAValueThatOverflowsTheDtype) {
  std::vector<formats::NamedTensor> tensors = TinyTensors();
  const float large = 70000;
  std::memcpy(tensors[2].bytes.data(), &large, sizeof(large));
  ExpectRefused(tensors, {"q_proj.weight", "beyond the range of float16"}, at::kHalf);
}

TEST(LoadModel, RefusesAWrongShapeWithExpectedAndFound) {
  std::vector<formats::NamedTensor> tensors = TinyTensors();
  tensors[3] = Floats(tensors[3].name, {4, 1}, 1);
  ExpectRefused(tensors, {"k_proj.weight", "[4, 1]", "[2, 2]"});
}

TEST(LoadModel, RefusesAMissingTensor) {
  std::vector<formats::NamedTensor> tensors = TinyTensors();
  tensors.erase(tensors.begin() + 8);
  ExpectRefused(tensors, {"model.layers.0.mlp.up_proj.weight", "missing"});
}

TEST(LoadModel, RefusesATensorThatTheConfigDoesNotAccountFor) {
  std::vector<formats::NamedTensor> tensors = TinyTensors();
  tensors.push_back(Floats("model.layers.0.self_attn.q_proj.bias", {2}, 1));
  ExpectRefused(tensors, {"q_proj.bias", "no place"});
}

TEST(LoadModel, RefusesADtypeThatIsNoWeight) {
  std::vector<formats::NamedTensor> tensors = TinyTensors();
  tensors[5] = {tensors[5].name, "I8", {2, 2}, "abcd"};
  ExpectRefused(tensors, {"o_proj.weight", "I8"});
}

TEST(LoadModel, RefusesAModelBeyondTheMemoryLimitWithTheFigures) {
  TemporaryDirectory directory;
  WriteTiny(directory, TinyTensors());
  const auto model = Load(directory.path(), at::kFloat, 159);
  ASSERT_EQ(model.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(model.status().message()), HasSubstr("need 160 bytes"));
  EXPECT_THAT(std::string(model.status().message()), HasSubstr("159 (0.00 GiB) may be used"));
  EXPECT_TRUE(Load(directory.path(), at::kFloat, 160).ok());
  EXPECT_TRUE(Load(directory.path(), at::kBFloat16, 80).ok());
}

TEST(ModelBytes, IsWhatLoadModelTakesAndReadsHeadersOnly) {
  TemporaryDirectory directory;
  std::vector<formats::NamedTensor> tensors = TinyTensors();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(tensors[4].bytes.data(), &nan, sizeof(nan));
  WriteTiny(directory, tensors);
  EXPECT_EQ(*ModelBytes(directory.path(), at::kFloat), 160);
  EXPECT_EQ(*ModelBytes(directory.path(), at::kBFloat16), 80);
  EXPECT_EQ(ModelBytes(directory.path(), at::kDouble).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ModelBytes(directory.path() + "/none", at::kFloat).status().code(), absl::StatusCode::kNotFound);
}

// An embedding of 24 MiB, which is read in several pieces; values that every dtype holds exactly.
class Large : public ::testing::Test {
 protected:
  static constexpr int64_t kRows = 3 << 20;
  Large() {
    std::string config = kConfig;
    config.replace(config.find("\"vocab_size\":3"), 14, "\"vocab_size\":" + std::to_string(kRows));
    directory_.Write("config.json", config);
    tensors_ = TinyTensors();
    tensors_[0] = {tensors_[0].name, "F32", {kRows, 2}, std::string(kRows * 2 * sizeof(float), '\0')};
    for (int64_t i = 0; i < kRows * 2; ++i) Set(i, static_cast<float>(i % 251));
  }
  void Set(int64_t index, float value) {
    std::memcpy(tensors_[0].bytes.data() + static_cast<size_t>(index) * sizeof(value), &value, sizeof(value));
  }
  absl::StatusOr<std::shared_ptr<const LoadedModel>> LoadAs(at::ScalarType dtype, bool odd) {
    std::vector<formats::NamedTensor> tensors = tensors_;
    if (odd) tensors.insert(tensors.begin(), {"rotary_emb.inv_freq", "U8", {1}, "x"});
    EXPECT_TRUE(formats::WriteSafetensors(directory_.File("model.safetensors"), tensors).ok());
    return Load(directory_.path(), dtype);
  }
  TemporaryDirectory directory_;
  std::vector<formats::NamedTensor> tensors_;
};

TEST_F(Large, TensorsKeepTheirValuesThroughThePieces) {
  const at::Tensor expected = at::arange(kRows * 2, at::kInt).remainder(251).view({kRows, 2});
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const bool odd : {false, true}) {
      const auto model = LoadAs(dtype, odd);
      ASSERT_TRUE(model.ok()) << model.status();
      EXPECT_TRUE((*model)->weights.embedding.equal(expected.to(dtype))) << c10::toString(dtype) << odd;
    }
  }
}

TEST_F(Large, ABadValueInTheLastPieceIsFound) {
  Set(kRows * 2 - 1, 1e20f);
  EXPECT_TRUE(LoadAs(at::kFloat, false).ok());
  EXPECT_THAT(std::string(LoadAs(at::kHalf, false).status().message()),
              HasSubstr("beyond the range of float16"));
  Set(kRows * 2 - 1, std::numeric_limits<float>::infinity());
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const bool odd : {false, true}) {
      const absl::Status status = LoadAs(dtype, odd).status();
      EXPECT_THAT(std::string(status.message()), HasSubstr("embed_tokens.weight holds NaN or infinity"));
    }
  }
}

// Conversion by pieces is ATen's conversion of the whole, for every number there is in 16 bits.
TEST(LoadModel, ConvertsEverySixteenBitNumberAsATenDoes) {
  for (const auto& [name, type, exponent] :
       {std::tuple("BF16", at::kBFloat16, 0x7f80), std::tuple("F16", at::kHalf, 0x7c00)}) {
    std::vector<int16_t> words;
    for (int word = 0; word < 65536; ++word) {
      if ((word & exponent) != exponent) words.push_back(static_cast<int16_t>(word));
    }
    const auto count = static_cast<int64_t>(words.size());
    const std::string bytes(reinterpret_cast<const char*>(words.data()), words.size() * 2);
    TemporaryDirectory directory;
    std::string config = kConfig;
    config.replace(config.find("\"vocab_size\":3"), 14, "\"vocab_size\":" + std::to_string(count / 2));
    directory.Write("config.json", config);
    std::vector<formats::NamedTensor> tensors = TinyTensors();
    tensors[0] = {tensors[0].name, name, {count / 2, 2}, bytes};
    tensors.insert(tensors.begin(), {"rotary_emb.inv_freq", "U8", {1}, "x"});
    ASSERT_TRUE(formats::WriteSafetensors(directory.File("model.safetensors"), tensors).ok());
    const auto model = Load(directory.path());
    ASSERT_TRUE(model.ok()) << model.status();
    const at::Tensor whole = at::from_blob(words.data(), {count / 2, 2}, at::TensorOptions().dtype(type));
    EXPECT_TRUE((*model)->weights.embedding.equal(whole.to(at::kFloat)));
  }
}

TEST(LoadModel, RefusesAWeightOfNoElements) {
  std::vector<formats::NamedTensor> tensors = TinyTensors();
  tensors[3] = {tensors[3].name, "F32", {0, 2}, ""};
  ExpectRefused(tensors, {"model.safetensors", "k_proj.weight", "[0, 2]", "[2, 2]"});
}

TEST(LoadModel, RefusesAnIndexThatNamesAMissingShard) {
  TemporaryDirectory directory;
  directory.Write("config.json", kConfig);
  std::string map;
  for (const formats::NamedTensor& tensor : TinyTensors())
    map += (map.empty() ? "\"" : ",\"") + tensor.name + "\":\"model-1-of-2.safetensors\"";
  directory.Write("model.safetensors.index.json", "{\"weight_map\":{" + map + "}}");
  const absl::Status status = Load(directory.path()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("model-1-of-2.safetensors"));
}

TEST(LoadModel, ReportsProgressUpToTheTotal) {
  TemporaryDirectory directory;
  WriteTiny(directory, TinyTensors());
  int64_t last = -1;
  const auto progress = [&](int64_t done, int64_t total) {
    EXPECT_GE(done, last);
    EXPECT_EQ(total, 160);
    last = done;
  };
  ASSERT_TRUE(LoadModel(directory.path(), at::kFloat, at::kCPU, 0, progress).ok());
  EXPECT_EQ(last, 160);
}

TEST(LoadModel, LoadsPlantedModelsOfEveryDtype) {
  for (const formats::Dtype dtype :
       {formats::Dtype::kFloat32, formats::Dtype::kBFloat16, formats::Dtype::kFloat16}) {
    TemporaryDirectory directory;
    formats::PlantOptions options;
    options.out = directory.path();
    options.dtype = dtype;
    options.strength = 12;
    options.slashes = {{0, 3, 700}};
    ASSERT_TRUE(formats::Plant(options).ok());
    const auto model = Load(directory.path());
    ASSERT_TRUE(model.ok()) << model.status();
    // Pair 1 of head 3: A sqrt(D) cos(700) = 96 * -0.83330...
    const float expected = 96.0f * std::cos(700.0f);
    EXPECT_NEAR((*model)->weights.layers[0].query[3 * 64][0].item<float>(), expected, 0.25);
  }
}

struct Shape {
  const char* name;
  int64_t layers, heads, kv_heads, head_dim, intermediate, vocabulary;
  bool tied;
};

class Fixtures : public ::testing::TestWithParam<Shape> {};

TEST_P(Fixtures, LoadWithTheShapesOfTheirConfigs) {
  const Shape shape = GetParam();
  SKIP_WITHOUT_FIXTURE(shape.name);
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const auto model = Load(Fixture(shape.name), dtype);
    ASSERT_TRUE(model.ok()) << model.status();
    const Weights& weights = (*model)->weights;
    ASSERT_EQ(static_cast<int64_t>(weights.layers.size()), shape.layers);
    EXPECT_EQ(weights.embedding.sizes(), at::IntArrayRef({shape.vocabulary, 64}));
    EXPECT_EQ(weights.lm_head.is_same(weights.embedding), shape.tied);
    EXPECT_EQ(weights.layers.back().query.sizes(), at::IntArrayRef({shape.heads * shape.head_dim, 64}));
    EXPECT_EQ(weights.layers.back().value.sizes(), at::IntArrayRef({shape.kv_heads * shape.head_dim, 64}));
    EXPECT_EQ(weights.layers.back().output.sizes(), at::IntArrayRef({64, shape.heads * shape.head_dim}));
    EXPECT_EQ(weights.layers.back().down.sizes(), at::IntArrayRef({64, shape.intermediate}));
    EXPECT_EQ(static_cast<int64_t>((*model)->inv_freq.size()), shape.head_dim / 2);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Fixtures,
                         ::testing::Values(Shape{"llama2_a", 3, 4, 4, 16, 160, 128, true},
                                           Shape{"llama3_a", 3, 4, 2, 16, 128, 144, false},
                                           Shape{"llama3bf16_a", 3, 8, 4, 8, 128, 144, true},
                                           Shape{"stories260K", 5, 8, 4, 8, 172, 512, true}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(ParseDevice, ReadsCpuAndRefusesWhatIsNotThere) {
  EXPECT_EQ(*ParseDevice("cpu"), at::Device(at::kCPU));
  EXPECT_THAT(std::string(ParseDevice("gpu").status().message()), HasSubstr("\"gpu\""));
  EXPECT_FALSE(ParseDevice("meta").ok());
  EXPECT_FALSE(ParseDevice("cuda:99").ok());
}

}  // namespace
}  // namespace ropelab::model
