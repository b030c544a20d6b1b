// Low-rank copies of projections against numpy's and libtorch's SVD, and what they leave alone.
#include "worker/engine/edited_weights.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>
#include <vector>

#include "tests/unit/engine/fixtures.h"
#include "tests/unit/engine/made_model.h"

namespace ropelab::engine {
namespace {

constexpr auto kQuery = Projection::kQuery;
constexpr auto kKey = Projection::kKey;

at::Tensor BySvd(const at::Tensor& rows, int64_t rank) {
  const auto [u, s, v] = at::linalg_svd(rows.to(at::kDouble), /*full_matrices=*/false);
  return at::mm(u.narrow(1, 0, rank) * s.narrow(0, 0, rank), v.narrow(0, 0, rank));
}

std::vector<at::Tensor> AllOf(const model::LayerWeights& w) {
  return {w.attention_norm, w.query,       w.key,      w.value,     w.query_bias,  w.key_bias,
          w.value_bias,     w.query_norm,  w.key_norm, w.output,    w.output_bias, w.attention_out_norm,
          w.mlp_norm,       w.gate,        w.up,       w.gate_bias, w.up_bias,     w.down,
          w.down_bias,      w.mlp_out_norm};
}

TEST(BestOfRank, KeepsTheLongestOfOrthogonalRows) {
  const at::Tensor rows = at::tensor({0.0, 2.0, 0.0, 0.0,  //
                                      3.0, 0.0, 0.0, 0.0,  //
                                      0.0, 0.0, 0.0, -1.0})
                              .view({3, 4});
  at::Tensor expected = at::zeros({3, 4}, at::kDouble);
  expected[1][0] = 3;
  EXPECT_LT(Distance(BestOfRank(rows, 1), expected), 1e-14);
  expected[0][1] = 2;
  EXPECT_LT(Distance(BestOfRank(rows, 2), expected), 1e-14);
}

TEST(BestOfRank, GivesAMatrixOfThatRankBack) {
  at::manual_seed(3);
  const at::Tensor rows = at::mm(at::randn({12, 2}, at::kDouble), at::randn({2, 40}, at::kDouble));
  EXPECT_LT(Distance(BestOfRank(rows, 2), rows), 1e-12);
  EXPECT_LT(Distance(BestOfRank(at::zeros({12, 40}), 2), at::zeros({12, 40})), 1e-300);
}

// numpy.linalg.svd in float64 of the heads' rows: the first three numbers of the first row, the last three of
// the last, and the Frobenius distance to the head itself.
struct NumpyMatrix {
  const char* fixture;
  HeadMatrix matrix;
  int64_t rank;
  double first[3], last[3], distance;
};
const NumpyMatrix kNumpy[] = {
    {"llama3_a",
     {1, kQuery, 2},
     3,
     {-0.4467261663, 0.1351237385, 0.02310890573},
     {-0.1069203781, -0.04559920191, 0.03270410853},
     5.016694895},
    {"gemma2_a",
     {2, kKey, 1},
     5,
     {0.02325241634, 0.1806688671, -0.2021342614},
     {-0.03071389849, 0.04759294816, 0.1031799794},
     5.081426314},
};

TEST(LowRankLayer, IsNumpysBestApproximation) {
  for (const NumpyMatrix& numpy : kNumpy) {
    ROPELAB_NEED_FIXTURE(numpy.fixture);
    const auto model = LoadFixture(numpy.fixture);
    const auto rows = [&](const model::LayerWeights& weights) {
      return (numpy.matrix.projection == kQuery ? weights.query : weights.key)
          .narrow(0, numpy.matrix.head * model->config.head_dim, model->config.head_dim)
          .to(at::kDouble);
    };
    const at::Tensor ours = rows(LowRankLayer(*model, numpy.matrix.layer, {{numpy.matrix, numpy.rank}}));
    for (int64_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(ours[0][i].item<double>(), numpy.first[i], 1e-7) << numpy.fixture;
      EXPECT_NEAR(ours[-1][i - 3].item<double>(), numpy.last[i], 1e-7) << numpy.fixture;
    }
    const at::Tensor original = rows(model->weights.layers[numpy.matrix.layer]);
    EXPECT_NEAR((ours - original).norm().item<double>(), numpy.distance, 1e-6 * numpy.distance);
  }
}

TEST(LowRankLayer, ReplacesTheNamedRowsAndSharesEverythingElse) {
  formats::ModelConfig config = SmallConfig();
  config.qkv_bias = config.output_bias = config.mlp_bias = true;
  config.norm_placement = formats::NormPlacement::kBeforeAndAfter;
  config.query_key_norm = formats::QueryKeyNorm::kAllHeads;
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const model::LoadedModel model = MadeModel(config, dtype);
    const model::LayerWeights& original = model.weights.layers[1];
    std::vector<at::Tensor> before;
    for (const at::Tensor& tensor : AllOf(original)) before.push_back(tensor.clone());

    const model::LayerWeights edited = LowRankLayer(
        model, 1, {{{0, kKey, 0}, 2}, {{1, kQuery, 0}, 1}, {{1, kQuery, 3}, 5}, {{1, kKey, 1}, 3}});

    at::Tensor query = original.query.clone(), key = original.key.clone();
    for (auto [whole, head, rank] :
         {std::tuple{query, 0, 1}, std::tuple{query, 3, 5}, std::tuple{key, 1, 3}}) {
      at::Tensor rows = whole.narrow(0, head * 12, 12);
      rows.copy_(BySvd(rows, rank));
    }
    // A rounding to the next number of the dtype where the two doubles lie around the middle.
    const double ulp = dtype == at::kFloat ? 1e-6 : dtype == at::kHalf ? 2e-3 : 2e-2;
    EXPECT_LT(Distance(edited.query, query), ulp);
    EXPECT_LT(Distance(edited.key, key), ulp);
    EXPECT_EQ(edited.query.scalar_type(), dtype);
    EXPECT_TRUE(at::equal(edited.query.narrow(0, 12, 24), original.query.narrow(0, 12, 24)));
    EXPECT_TRUE(at::equal(edited.key.narrow(0, 0, 12), original.key.narrow(0, 0, 12)));

    const std::vector<at::Tensor> now = AllOf(original), theirs = AllOf(edited);
    for (size_t i = 0; i < now.size(); ++i) {
      EXPECT_TRUE(at::equal(now[i], before[i])) << "the model's own weights changed: " << i;
      const bool copied = i == 1 || i == 2;
      EXPECT_EQ(theirs[i].data_ptr() != now[i].data_ptr(), copied) << i;
    }
  }
}

TEST(LowRankLayer, OfFullRankIsTheModelsOwn) {
  formats::ModelConfig narrow = SmallConfig();
  narrow.hidden_size = 8;  // below head_dim: no head's rank reaches 9
  for (const auto& [config, full] : {std::pair{SmallConfig(), 12}, std::pair{narrow, 8}}) {
    const model::LoadedModel model = MadeModel(config);
    for (const int64_t rank : {int64_t{full}, int64_t{full} + 1, int64_t{1} << 40}) {
      const LowRanks ranks = {{{0, kQuery, 1}, rank}, {{0, kKey, 1}, rank}};
      EXPECT_TRUE(ThoseThatEdit(ranks, config).empty());
      const model::LayerWeights weights = LowRankLayer(model, 0, ranks);
      EXPECT_EQ(weights.query.data_ptr(), model.weights.layers[0].query.data_ptr());
      EXPECT_EQ(weights.key.data_ptr(), model.weights.layers[0].key.data_ptr());
    }
    EXPECT_EQ(ThoseThatEdit({{{0, kQuery, 1}, full - 1}}, config).size(), 1u);
  }
}

TEST(LowRankLayer, BitsDependNeitherOnThreadsNorOnWhatElseIsNamed) {
  formats::ModelConfig config = SmallConfig();
  config.hidden_size = 320;
  config.head_dim = 64;
  const model::LoadedModel model = MadeModel(config);
  LowRanks all;
  for (int64_t head = 0; head < 4; ++head) all[{0, kQuery, head}] = 20 + head;
  all[{0, kKey, 0}] = 7;
  const int threads = at::get_num_threads();
  std::vector<at::Tensor> said;
  for (const int count : {1, 2, 3}) {
    at::set_num_threads(count);
    const model::LayerWeights together = LowRankLayer(model, 0, all);
    said.push_back(together.query);
    const model::LayerWeights alone = LowRankLayer(model, 0, {{{0, kQuery, 2}, 22}});
    EXPECT_TRUE(at::equal(alone.query.narrow(0, 128, 64), together.query.narrow(0, 128, 64))) << count;
  }
  at::set_num_threads(threads);
  EXPECT_TRUE(at::equal(said[0], said[1]));
  EXPECT_TRUE(at::equal(said[0], said[2]));
}

}  // namespace
}  // namespace ropelab::engine
