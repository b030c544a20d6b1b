#include "worker/engine/token_losses.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "tests/unit/engine/made_model.h"
#include "worker/engine/decoder.h"

namespace ropelab::engine {
namespace {

std::vector<int32_t> SomeIds(int64_t count) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i) ids.push_back(static_cast<int32_t>((i * i + 3 * i) % 90));
  return ids;
}

// By libtorch's log_softmax, in double.
double ByLogSoftmax(const at::Tensor& logits, const std::vector<int32_t>& ids) {
  const at::Tensor log_p = at::log_softmax(logits.to(at::kDouble), 1);
  double sum = 0;
  for (size_t i = 1; i < ids.size(); ++i) sum -= log_p[static_cast<int64_t>(i) - 1][ids[i]].item<double>();
  return sum;
}

TEST(TokenLosses, OfLogitsThatAreAllEqualIsTheLogarithmOfTheVocabulary) {
  model::LoadedModel model = MadeModel(SmallConfig());
  model.weights.lm_head = at::zeros_like(model.weights.lm_head);
  const auto nll = TokenLosses(model).Summed(at::ones({130, 40}), SomeIds(130));
  ASSERT_TRUE(nll.ok()) << nll.status();
  EXPECT_NEAR(*nll, 129 * std::log(90.0), 1e-10);
}

// Logits that no sum of exponentials in double would survive: e^3000.
TEST(TokenLosses, OfLargeLogitsStaysANumber) {
  model::LoadedModel model = MadeModel(SmallConfig());
  model.weights.final_norm = at::ones({40});
  model.weights.lm_head = at::zeros({90, 40});
  model.weights.lm_head[7].fill_(75);  // a row of ones is its own norm: logit 3000
  const auto nll = TokenLosses(model).Summed(at::ones({3, 40}), std::vector<int32_t>{0, 7, 8});
  ASSERT_TRUE(nll.ok()) << nll.status();
  EXPECT_NEAR(*nll, 3000, 0.01);
}

TEST(TokenLosses, IsTheSumOfLogProbabilitiesOfTheForwardPassLogits) {
  formats::ModelConfig capped = SmallConfig();
  capped.final_soft_cap = 2;
  capped.tied_embeddings = true;
  for (const formats::ModelConfig& config : {SmallConfig(), capped}) {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
      const model::LoadedModel model = MadeModel(config, dtype);
      const TokenLosses losses(model);
      for (const int64_t tokens : {2, 64, 65, 66, 200}) {
        const std::vector<int32_t> ids = SomeIds(tokens);
        struct Last : Observer {
          void Hidden(int64_t layer, const at::Tensor& hidden) override {
            if (layer == 2) residual = hidden.clone();
          }
          at::Tensor residual;
        } last;
        ForwardOptions options;
        options.logit_rows.resize(ids.size());
        std::iota(options.logit_rows.begin(), options.logit_rows.end(), 0);
        const auto logits = Forward(model, ids, options, last);
        const auto nll = losses.Summed(last.residual, ids);
        ASSERT_TRUE(logits.ok() && nll.ok()) << nll.status();
        const double expected = ByLogSoftmax(*logits, ids);
        // Products of other shapes may round a bf16 or fp16 logit to its neighbour.
        EXPECT_NEAR(*nll, expected, (dtype == at::kFloat ? 1e-6 : 1e-3) * expected) << dtype << tokens;
      }
    }
  }
}

TEST(TokenLosses, BitsDependOnNoNumberOfThreads) {
  const int threads = at::get_num_threads();
  at::manual_seed(5);
  const at::Tensor residual = at::randn({200, 40});
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const model::LoadedModel model = MadeModel(SmallConfig(), dtype);
    std::vector<double> said;
    for (const int count : {1, 2, 3}) {
      at::set_num_threads(count);
      said.push_back(TokenLosses(model).Summed(residual.to(dtype), SomeIds(200)).value_or(-1));
    }
    EXPECT_GT(said[0], 0);
    EXPECT_EQ(said[0], said[1]);
    EXPECT_EQ(said[0], said[2]);
  }
  at::set_num_threads(threads);
}

TEST(TokenLosses, NamesThePositionWhoseLogitsAreNotFinite) {
  const model::LoadedModel model = MadeModel(SmallConfig());
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    at::manual_seed(5);
    at::Tensor residual = at::randn({100, 40});
    residual[70][3] = bad;
    const absl::Status status = TokenLosses(model).Summed(residual, SomeIds(100)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("position 70"));
  }
}

}  // namespace
}  // namespace ropelab::engine
