// Layer 0 over vocabularies whose geometry is planted, longer than what is in memory at once.
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "common/philox.h"
#include "tests/unit/engine/made_model.h"
#include "tests/unit/measure/list_recorder.h"

namespace ropelab::measure {
namespace {

using engine::MadeModel;
using engine::SmallConfig;

constexpr int64_t kTokens = 2500;

v1::Measurement OfTokens(int64_t tokens = kTokens) {
  v1::Measurement measurement;
  measurement.mutable_weight_profile()->set_energy(0.95);
  v1::VocabularyProfile& vocabulary = *measurement.mutable_weight_profile()->mutable_vocabulary();
  vocabulary.set_tokens(tokens);
  vocabulary.set_norm_weight(true);
  vocabulary.set_random_vectors(5);
  return measurement;
}

// Query and key.
std::vector<v1::VocabularySide> SidesOf(const model::LoadedModel& model,
                                        const v1::Measurement& request = OfTokens()) {
  ListRecorder recorder;
  const auto outcome = Measure(request, &model, {}, recorder);
  EXPECT_TRUE(outcome.ok()) << outcome.status();
  std::vector<v1::VocabularySide> sides;
  for (const v1::Reading& reading : recorder.readings) sides.push_back(reading.vocabulary_side());
  EXPECT_EQ(sides.size(), 2u);
  sides.resize(2);
  return sides;
}

// Normals [rows, n] of our own stream, so that nothing hangs on libtorch's.
at::Tensor Normals(uint64_t sample, int64_t rows, int64_t n) {
  at::Tensor drawn = at::empty({rows, n}, at::kDouble);
  Philox({5, 6}, {0, 0, sample, 0})
      .Normals(std::span(drawn.data_ptr<double>(), static_cast<size_t>(drawn.numel())));
  return drawn;
}

// The embedding lies on a cone around `axis` (unit) with the given cosine; olmo2's way, so that x is it.
model::LoadedModel ConeModel(const at::Tensor& axis, double cosine) {
  formats::ModelConfig config = SmallConfig();
  config.norm_placement = formats::NormPlacement::kAfter;
  config.vocabulary = kTokens;
  model::LoadedModel model = MadeModel(config);
  at::Tensor around = Normals(1, kTokens, config.hidden_size);
  around = around - at::mm(around.matmul(axis).unsqueeze(1), axis.unsqueeze(0));
  around = around / around.norm(2, {1}, true);
  model.weights.embedding =
      (axis.unsqueeze(0) * cosine + around * std::sqrt(1 - cosine * cosine)).to(at::kFloat);
  return model;
}

// A projection [D, d] whose strongest right singular vector is `axis`, with 9, the others' being at most 1.
at::Tensor StrongAlong(const at::Tensor& axis, uint64_t sample) {
  const at::Tensor right = Normals(sample, 12, axis.size(0));
  const at::Tensor rest = right - at::mm(right.matmul(axis).unsqueeze(1), axis.unsqueeze(0));
  const at::Tensor flat = std::get<0>(at::linalg_qr(rest.t())).t();
  // The left vector of the strongest direction; the rest must be orthogonal to it on this side too.
  const at::Tensor left = at::ones({12, 1}, at::kDouble) / std::sqrt(12.0);
  return (flat - at::mm(left, at::mm(left.t(), flat)) + 9 * at::mm(left, axis.unsqueeze(0))).to(at::kFloat);
}

TEST(VocabularyProfile, AnExactConeHasNoVariationAndOneCosine) {
  at::Tensor axis = Normals(0, 1, 40)[0];
  axis = axis / axis.norm();
  // Minus the axis: the sign of the cosines is then ours to choose.
  model::LoadedModel model = ConeModel(-axis, 0.705);
  for (int64_t head = 0; head < 4; ++head) {
    model.weights.layers[0].query.narrow(0, head * 12, 12).copy_(StrongAlong(axis, 10 + head));
  }
  const v1::VocabularySide query = SidesOf(model)[0];
  for (int head = 0; head < 4; ++head) {
    EXPECT_LT(query.axis_rv(head), 1e-6);
    ASSERT_EQ(query.cosines(head).counts_size(), 200);
    EXPECT_EQ(query.cosines(head).counts(170), kTokens);  // 0.70 <= 0.705 < 0.71
    // At least 81 * 0.705^2 / (81 * 0.705^2 + 1 - 0.705^2) of a token's energy lies along the axis.
    EXPECT_GT(query.aligned_r1(head), 0.987);
    EXPECT_EQ(query.aligned_rank(head), 1.0);
  }
  EXPECT_EQ(query.random_rv_size(), 5);
  for (const double rv : query.random_rv()) EXPECT_GT(rv, 0.01);
}

TEST(VocabularyProfile, EqualTokensMakeQueriesAndKeysOfRankOne) {
  formats::ModelConfig config = SmallConfig();
  config.vocabulary = kTokens;
  config.qkv_bias = true;
  model::LoadedModel model = MadeModel(config);
  model.weights.embedding.copy_(model.weights.embedding[7].clone().unsqueeze(0).expand({kTokens, 40}));
  for (const v1::VocabularySide& side : SidesOf(model)) {
    for (int head = 0; head < side.r1_size(); ++head) {
      EXPECT_NEAR(side.r1(head), 1.0, 1e-12);
      EXPECT_EQ(side.rank(head), 1);
      EXPECT_LT(side.axis_rv(head), 1e-12);
    }
    for (const double rv : side.random_rv()) EXPECT_LT(rv, 1e-12);
    EXPECT_EQ(side.bias_norm_size(), side.r1_size());
  }
}

// Each token by itself in plain double, from the definition: singular vectors by libtorch's SVD of W itself.
TEST(VocabularyProfile, SumsOverStretchesAreThoseOfTheWholeVocabulary) {
  formats::ModelConfig config = SmallConfig();
  config.vocabulary = kTokens;
  const model::LoadedModel model = MadeModel(config);
  const v1::VocabularySide key = SidesOf(model)[1];
  const at::Tensor e = model.weights.embedding.to(at::kDouble);
  const at::Tensor x = e / at::sqrt((e * e).mean(1, true) + config.rms_norm_eps) *
                       model.weights.layers[0].attention_norm.to(at::kDouble);
  for (int64_t head = 0; head < 2; ++head) {
    const at::Tensor w = model.weights.layers[0].key.narrow(0, head * 12, 12).to(at::kDouble);
    const auto [u, s, vh] = at::linalg_svd(w, false);
    const at::Tensor energies = (x.matmul(vh.t()) * s).pow(2);
    const at::Tensor share = std::get<0>(energies.sort(1, true)).cumsum(1) / energies.sum(1, true);
    const int index = static_cast<int>(head);
    EXPECT_NEAR(key.aligned_r1(index), share.select(1, 0).mean().item<double>(), 1e-6);
    EXPECT_NEAR(key.aligned_rank(index), share.lt(0.95).sum(1).to(at::kDouble).mean().item<double>() + 1,
                1e-3);
    EXPECT_NEAR(key.mean_norm(index), x.matmul(w.t()).norm(2, {1}).mean().item<double>(), 1e-5);
    const at::Tensor along = x.matmul(vh[energies.sum(0).argmax().item<int64_t>()]);
    const double rv = along.std(true).item<double>() / std::abs(along.mean().item<double>());
    EXPECT_NEAR(key.axis_rv(index), rv, 1e-4 * rv);
  }
}

TEST(VocabularyProfile, LeavesOutTokensAndHeadsWithoutADirection) {
  formats::ModelConfig config = SmallConfig();
  config.norm_placement = formats::NormPlacement::kAfter;
  config.vocabulary = kTokens;
  model::LoadedModel model = MadeModel(config);
  const double before = SidesOf(model, OfTokens(1000))[0].aligned_r1(0);
  model.weights.embedding.narrow(0, 1000, kTokens - 1000).zero_();
  model.weights.layers[0].query.narrow(0, 12, 12).zero_();
  const v1::VocabularySide query = SidesOf(model)[0];
  EXPECT_NEAR(query.aligned_r1(0), before, 1e-12);
  int64_t counted = 0;
  for (const int64_t count : query.cosines(0).counts()) counted += count;
  EXPECT_EQ(counted, 1000);
  // A head whose weights are zero has no direction at all.
  EXPECT_TRUE(std::isnan(query.r1(1)));
  EXPECT_EQ(query.rank(1), 0);
  EXPECT_TRUE(std::isnan(query.aligned_r1(1)));
  EXPECT_TRUE(std::isnan(query.axis_rv(1)));
  EXPECT_EQ(query.mean_norm(1), 0.0);
}

TEST(VocabularyProfile, BitsDoNotDependOnTheNumberOfThreads) {
  formats::ModelConfig config = SmallConfig();
  config.hidden_size = 320;
  config.head_dim = 64;
  config.kv_heads = 1;
  config.vocabulary = 1100;
  const int threads = at::get_num_threads();
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const model::LoadedModel model = MadeModel(config, dtype);
    std::vector<std::string> said;
    for (const int count : {1, 2, 3}) {
      at::set_num_threads(count);
      const auto sides = SidesOf(model, OfTokens(1030));  // the second stretch is less than one tile
      said.push_back(sides[0].SerializeAsString() + sides[1].SerializeAsString());
    }
    at::set_num_threads(threads);
    EXPECT_EQ(said[0], said[1]);
    EXPECT_EQ(said[0], said[2]);
  }
}

TEST(VocabularyProfile, SaysWhereTheModelDoesNotComputeInItsDtype) {
  formats::ModelConfig config = SmallConfig();
  config.vocabulary = kTokens;
  model::LoadedModel model = MadeModel(config, at::kHalf);
  model.weights.layers[0].query.fill_(60000);
  model.weights.embedding[2000].fill_(1);
  model.weights.embedding.narrow(0, 0, 2000).zero_();
  model.weights.embedding.narrow(0, 2001, kTokens - 2001).zero_();
  ListRecorder recorder;
  const absl::Status status = Measure(OfTokens(), &model, {}, recorder).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("token ids 1024..2047"));
}

TEST(VocabularyProfile, NeedsNoMoreMemoryForALongerVocabulary) {
  formats::ModelConfig config = SmallConfig();
  config.vocabulary = 150000;
  model::LoadedModel model;
  model.config = config;
  model.dtype = at::kFloat;
  const auto bytes = [&](int64_t tokens) { return ActivationBytes(OfTokens(tokens), model).value_or(0); };
  EXPECT_GT(bytes(100), 0);
  EXPECT_LT(bytes(100), bytes(5000));
  EXPECT_EQ(bytes(5000), bytes(150000));
}

}  // namespace
}  // namespace ropelab::measure
