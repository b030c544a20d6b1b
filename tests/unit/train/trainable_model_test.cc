#include "worker/train/trainable_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/unit/train/trained_text.h"
#include "worker/engine/decoder.h"
#include "worker/model/loaded_model.h"
#include "worker/train/blocked_attention.h"
#include "worker/train/export_model.h"

namespace ropelab::train {
namespace {

at::Tensor Waves(at::IntArrayRef sizes, double phase) {
  return at::sin(at::arange(at::ones(sizes).numel(), at::kDouble) * 1.7 + phase).view(sizes);
}

// Attention as its formula stands, all of it at once.
at::Tensor WholeAttention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
  const int64_t tokens = query.size(2);
  const at::Tensor logits = at::matmul(query, key.unsqueeze(1).transpose(2, 3));
  const at::Tensor later = at::ones({tokens, tokens}, at::kBool).triu(1);
  return at::matmul(at::softmax(logits.masked_fill(later, -1e300), -1), value.unsqueeze(1));
}

// 300 rows are two whole blocks and a part of one. In double, so that both ways agree to the last digits.
TEST(BlockedAttentionTest, AndItsGradientsAreThoseOfTheWholeMatrix) {
  std::vector<at::Tensor> results[2], gradients[2];
  for (const int way : {0, 1}) {
    const at::Tensor query = Waves({2, 3, 300, 8}, 0.3).requires_grad_();
    const at::Tensor key = Waves({2, 300, 8}, 1.1).requires_grad_();
    const at::Tensor value = Waves({2, 300, 8}, 2.0).requires_grad_();
    const at::Tensor out = way == 0 ? BlockedAttention(query, key, value) : WholeAttention(query, key, value);
    (out * Waves({2, 3, 300, 8}, 0.9)).sum().backward();
    results[way] = {out.detach()};
    gradients[way] = {query.grad(), key.grad(), value.grad()};
  }
  EXPECT_LT((results[0][0] - results[1][0]).abs().max().item<double>(), 1e-12);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_GT(gradients[1][i].abs().max().item<double>(), 0.01);
    // Sums over blocks are taken in fp32.
    EXPECT_LT((gradients[0][i] - gradients[1][i]).abs().max().item<double>(), i == 0 ? 1e-12 : 1e-4) << i;
  }
}

TEST(BlockedAttentionTest, TakesAHeadsShareAwayWithItsScale) {
  ModelShape shape;
  shape.layers = 2;
  const TrainableModel model(shape, 300, 5, at::kFloat);
  const at::NoGradGuard no_gradients;
  const at::Tensor ids = at::arange(40).view({2, 20});
  at::Tensor scale = at::ones({2, 2, 8});
  const at::Tensor whole = model.Run(ids, {}).logits;
  EXPECT_TRUE(whole.equal(model.Run(ids, {scale, nullptr, {}}).logits));
  scale[1][1][3] = 0;
  const at::Tensor less = model.Run(ids, {scale, nullptr, {}}).logits;
  EXPECT_TRUE(whole[0].equal(less[0]));
  EXPECT_FALSE(whole[1].equal(less[1]));
}

// What is exported is what was trained: the engine's own forward pass gives the same logits.
TEST(TrainableModelTest, AgreesWithTheEngineOnTheExportedWeights) {
  Recipe recipe;
  recipe.dtype = "float32";
  recipe.shape.layers = 3;
  constexpr int64_t kVocabulary = 600, kTokens = 300;
  const TrainableModel model(recipe.shape, kVocabulary, 11, at::kFloat);
  for (const auto& [name, parameter] : model.Parameters()) {  // norm weights that are not all 1
    if (parameter.dim() == 1) parameter.detach().add_(Waves(parameter.sizes(), 0.5).to(at::kFloat) * 0.3);
  }
  const std::string directory = testing::TempDir() + "exported";
  const auto tokenizer = CountTrainingWords(7, 200, 0.5);
  ASSERT_TRUE(tokenizer.ok());
  const absl::Status exported =
      ExportModel(directory, recipe, model, kVocabulary, TokenizerJson(TrainMerges(*tokenizer, kVocabulary)));
  ASSERT_TRUE(exported.ok()) << exported;

  std::vector<int32_t> ids(kTokens);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>((i * i * 7 + i) % kVocabulary);
  const auto loaded = model::LoadModel(directory, at::kFloat, at::kCPU, 0, [](int64_t, int64_t) {});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_TRUE((*loaded)->config.tied_embeddings);
  EXPECT_EQ((*loaded)->config.kv_heads, recipe.shape.kv_heads);
  engine::ForwardOptions options;
  options.logit_rows = {0, 17, 150, kTokens - 1};
  engine::Observer nobody;
  const auto logits = engine::Forward(**loaded, ids, options, nobody);
  ASSERT_TRUE(logits.ok()) << logits.status();

  const at::NoGradGuard no_gradients;
  const at::Tensor own = model.Run(at::tensor(ids).to(at::kLong).unsqueeze(0), {})
                             .logits[0]
                             .index_select(0, at::tensor(options.logit_rows));
  EXPECT_GT(own.abs().max().item<double>(), 0.1);
  EXPECT_LT((own - *logits).abs().max().item<double>(), 2e-5);
}

TEST(TrainableModelTest, IsDrawnAsTheRecipeSays) {
  ModelShape shape;
  const TrainableModel model(shape, 768, 42, at::kFloat);
  for (const auto& [name, parameter] : model.Parameters()) {
    const double sd = parameter.detach().std().item<double>();
    const auto inputs = static_cast<double>(parameter.size(-1));
    const bool adds = name.find("o_proj") != std::string::npos || name.find("down_proj") != std::string::npos;
    if (parameter.dim() == 1) {
      EXPECT_TRUE(parameter.eq(1).all().item<bool>()) << name;
    } else if (name.find("embed") != std::string::npos) {
      EXPECT_NEAR(sd, 0.02, 0.001);
    } else {
      EXPECT_NEAR(sd * std::sqrt(inputs), adds ? 0.5 : 1, 0.03) << name;
    }
  }
}

}  // namespace
}  // namespace ropelab::train
