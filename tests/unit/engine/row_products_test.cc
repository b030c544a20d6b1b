// What the CPU computes row by row: against double, and independent of the rows beside and of the threads.
#include "worker/engine/row_products.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/unit/engine/fixtures.h"
#include "worker/engine/layer_ops.h"

namespace ropelab::engine {
namespace {

using formats::Activation;

constexpr Activation kActivations[] = {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh};

at::Tensor Activated(at::Tensor x, Activation activation) {
  x = x.clone();
  ActivateRows(x, activation);
  return x;
}

at::Tensor Capped(at::Tensor x, double cap) {
  x = x.clone();
  CapRows(x, cap);
  return x;
}

TEST(RowProducts, EqualTheProductInDouble) {
  at::manual_seed(1);
  const at::Tensor x = at::randn({11, 300}), weight = at::randn({70, 300}), bias = at::randn({70});
  const at::Tensor expected = at::addmm(bias.to(at::kDouble), x.to(at::kDouble), weight.to(at::kDouble).t());
  EXPECT_LE(Distance(RowProducts(x, weight, bias), expected), 3e-5);
  EXPECT_LE(Distance(RowProducts(x.t().contiguous().t(), weight, {}), expected - bias), 3e-5);
  EXPECT_THROW(RowProducts(x, weight.narrow(1, 0, 299), {}), c10::Error);
}

TEST(ActivateRows, EqualsTheFormulasInDouble) {
  at::Tensor x = at::cat({at::linspace(-100, 100, 4001), at::linspace(-4, 4, 4001)}).view({2, -1});
  const at::Tensor wide = x.to(at::kDouble);
  const auto silu = wide / (1 + at::exp(-wide));
  const auto gelu = wide * 0.5 * (1 + at::erf(wide / std::sqrt(2.0)));
  const auto cubed = wide + 0.044715 * wide * wide * wide;
  const auto gelu_tanh = wide * 0.5 * (1 + at::tanh(std::sqrt(2 / std::acos(-1.0)) * cubed));
  const auto off = [&](Activation activation, const at::Tensor& expected, const at::Tensor& scale) {
    return ((Activated(x, activation).to(at::kDouble) - expected).abs() / scale).max().item<double>();
  };
  EXPECT_LE(off(Activation::kSilu, silu, silu.abs() + 2e-30), 1e-6);  // off by 1e-36 at most near zero
  const at::Tensor at_least_one = wide.abs().clamp(1);
  EXPECT_LE(off(Activation::kGelu, gelu, at_least_one), 3e-7);
  EXPECT_LE(off(Activation::kGeluTanh, gelu_tanh, at_least_one), 3e-7);
}

TEST(ActivateRows, KeepsWhatIsNotFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const at::Tensor x = at::tensor({std::nanf(""), kInfinity}).view({1, 2});
  for (const Activation activation : kActivations) {
    const at::Tensor active = Activated(x, activation);
    EXPECT_TRUE(std::isnan(active[0][0].item<float>()));
    EXPECT_EQ(active[0][1].item<float>(), kInfinity);
  }
  EXPECT_TRUE(std::isnan(Capped(x, 30)[0][0].item<float>()));
}

TEST(CapRows, IsTheScaledTangent) {
  const at::Tensor x = at::linspace(-200, 200, 999).view({3, 333});
  EXPECT_LE(Distance(Capped(x, 30), 30 * at::tanh(x.to(at::kDouble) / 30)), 1e-5);
}

// Large enough to be shared out, with rows that no vector's width divides.
TEST(RowByRow, NoBitFollowsTheRowsBesideNorTheThreads) {
  at::manual_seed(2);
  const at::Tensor x = at::randn({8, 5003}) * 3, weight = at::randn({301, 5003});
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor products = RowProducts(x, weight, {}), capped = Capped(x, 2);
  for (const int count : {1, 2, 3, 5}) {
    at::set_num_threads(count);
    EXPECT_TRUE(at::equal(RowProducts(x, weight, {}), products)) << count;
    EXPECT_TRUE(at::equal(Capped(x, 2), capped)) << count;
    for (const Activation activation : kActivations) {
      const at::Tensor together = Activated(x, activation);
      for (int64_t row = 0; row < 8; ++row) {
        const at::Tensor alone = x.narrow(0, row, 1);
        EXPECT_TRUE(at::equal(Activated(alone, activation), together.narrow(0, row, 1))) << count << row;
        EXPECT_TRUE(at::equal(RowProducts(alone, weight, {}), products.narrow(0, row, 1))) << count << row;
        EXPECT_TRUE(at::equal(RmsNorm(alone, at::ones({5003}), 1e-6),
                              RmsNorm(x, at::ones({5003}), 1e-6).narrow(0, row, 1)))
            << count << row;
      }
    }
  }
  at::set_num_threads(threads);
}

}  // namespace
}  // namespace ropelab::engine
