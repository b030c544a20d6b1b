// Spectra of matrices whose singular values are known by hand.
#include "worker/engine/spectrum.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

namespace ropelab::engine {
namespace {

at::Tensor Values(std::vector<double> values) {
  return at::tensor(values, at::kDouble);
}
at::Tensor Matrix(std::vector<double> values, int64_t rows) {
  return at::tensor(values, at::kDouble).view({rows, -1});
}

Spectrum OfMatrix(const at::Tensor& x, double energy) {
  return SpectrumOf(EigenOf(SmallerGram(x, {}), /*vectors=*/false).values, energy);
}

// Small whole numbers: sums of their products are exact in any order.
at::Tensor WholeNumbers(int64_t rows, int64_t columns) {
  return at::arange(rows * columns)
      .mul(7)
      .add(at::arange(rows * columns).div(13, "floor"))
      .remainder(11)
      .sub(5)
      .view({rows, columns})
      .to(at::kFloat);
}

bool SameBits(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.contiguous(), y = b.contiguous();
  return x.nbytes() == y.nbytes() && std::memcmp(x.data_ptr(), y.data_ptr(), x.nbytes()) == 0;
}

TEST(Spectrum, OfRankOneIsOne) {
  const at::Tensor x =
      at::mm(at::arange(1, 31).to(at::kFloat).unsqueeze(1), at::arange(-4, 5).to(at::kFloat).unsqueeze(0));
  for (const at::Tensor& either : {x, x.t()}) {
    EXPECT_DOUBLE_EQ(OfMatrix(either, 0.95).r1, 1.0);
    EXPECT_EQ(OfMatrix(either, 0.95).rank, 1);
  }
}

TEST(Spectrum, OfTheIdentityIsEvenlySpread) {
  const Spectrum spectrum = OfMatrix(at::eye(40, 10), 0.95);
  EXPECT_DOUBLE_EQ(spectrum.r1, 0.1);
  EXPECT_EQ(spectrum.rank, 10);
  EXPECT_EQ(OfMatrix(at::eye(40, 10), 0.85).rank, 9);
}

TEST(Spectrum, OfZerosIsNotANumberAndHasNoRank) {
  const Spectrum spectrum = OfMatrix(at::zeros({30, 4}), 0.95);
  EXPECT_TRUE(std::isnan(spectrum.r1));
  EXPECT_EQ(spectrum.rank, 0);
}

TEST(Spectrum, ARankIsReachedWhereItsEnergyIsExactlyReached) {
  EXPECT_EQ(SpectrumOf(Values({9, 1}), 0.9).rank, 1);
  EXPECT_EQ(SpectrumOf(Values({8.999, 1.001}), 0.9).rank, 2);
  EXPECT_EQ(SpectrumOf(Values({16, 3, 1}), 0.95).rank, 2);
  EXPECT_EQ(SpectrumOf(Values({2, 1, 1}), 0.5).rank, 1);
  EXPECT_EQ(SpectrumOf(Values({5, 3, 2}), 1e-12).rank, 1);
}

TEST(Spectrum, AllEnergyIsReachedAtTheLastValueThatIsNotZero) {
  // Summed from either end these differ in the last bit.
  EXPECT_EQ(SpectrumOf(Values({0.7, 0.3, 0.2, 0.1, 0, 0, 0}), 1.0).rank, 4);
  EXPECT_EQ(SpectrumOf(Values({1e9, 0.1, 0.1, 0.1, 0, 0}), 1.0).rank, 4);
  EXPECT_EQ(SpectrumOf(Values({3, 0}), 1.0).rank, 1);
}

TEST(Spectrum, EigenvectorsPointToTheirLargestCoordinate) {
  // (4, -2; -2, 1) is (2, -1)'(2, -1).
  const Eigen eigen = EigenOf(Matrix({4, -2, -2, 1}, 2), /*vectors=*/true);
  EXPECT_NEAR(eigen.values[0].item<double>(), 5, 1e-14);
  EXPECT_NEAR(eigen.values[1].item<double>(), 0, 1e-14);
  EXPECT_GE(eigen.values[1].item<double>(), 0);
  const at::Tensor expected = Matrix({2, 1, -1, 2}, 2) / std::sqrt(5.0);
  EXPECT_LT((eigen.vectors - expected).abs().max().item<double>(), 1e-14);
}

TEST(Spectrum, EigenvaluesOfSeveralMatricesKeepTheirPlaces) {
  const at::Tensor grams = at::stack({Matrix({2, 1, 1, 2}, 2), Matrix({7, 0, 0, 4}, 2)}).unsqueeze(0);
  const at::Tensor values = EigenOf(grams, /*vectors=*/false).values;
  ASSERT_EQ(values.sizes(), at::IntArrayRef({1, 2, 2}));
  EXPECT_LT((values.view({-1}) - Values({3, 1, 7, 4})).abs().max().item<double>(), 1e-14);
}

TEST(GramSum, AddsPiecesOfManyMatricesInAnyDtype) {
  const at::Tensor x = Matrix({1, 2, 3, 4}, 2), y = Matrix({0, 1, 1, 0}, 2);
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
    GramSum sum;
    sum.Add(at::stack({x, y}).to(dtype));
    sum.Add(at::stack({y, x.narrow(0, 0, 2)}).to(dtype));
    EXPECT_TRUE(sum.sum()[0].equal(Matrix({11, 14, 14, 21}, 2)));
    EXPECT_TRUE(sum.sum()[1].equal(Matrix({11, 14, 14, 21}, 2)));
  }
}

TEST(GramSum, ManyColumnsAreTakenInTilesAndEveryTileIsFilled) {
  const at::Tensor x = WholeNumbers(50, 600);
  GramSum sum;
  sum.Add(x.narrow(0, 0, 20));
  sum.Add(x.narrow(0, 20, 30));
  EXPECT_TRUE(sum.sum().equal(at::mm(x.t().to(at::kDouble), x.to(at::kDouble))));
}

TEST(SmallerGram, IsTheOneOfTheShorterSide) {
  const at::Tensor x = WholeNumbers(1100, 300), wide = x.to(at::kDouble);
  EXPECT_TRUE(SmallerGram(x, {}).equal(at::mm(wide.t(), wide)));
  EXPECT_TRUE(SmallerGram(x.t(), {}).equal(at::mm(wide.t(), wide)));
  const at::Tensor centre = at::arange(300).to(at::kDouble), less = wide - centre;
  EXPECT_TRUE(SmallerGram(x, centre).equal(at::mm(less.t(), less)));
  const at::Tensor long_centre = at::arange(1100).to(at::kDouble), less_t = wide.t() - long_centre;
  EXPECT_TRUE(SmallerGram(x.t(), long_centre).equal(at::mm(less_t, less_t.t())));
}

TEST(Spectrum, BitsDoNotDependOnTheNumberOfThreads) {
  at::manual_seed(5);
  const at::Tensor x = at::randn({900, 520}), wide = at::randn({130, 900});
  const int threads = at::get_num_threads();
  std::vector<at::Tensor> grams, wide_grams;
  std::vector<Eigen> eigen;
  for (const int count : {1, 2, 3}) {
    at::set_num_threads(count);
    grams.push_back(SmallerGram(x, {}));
    wide_grams.push_back(SmallerGram(wide, {}));
    eigen.push_back(EigenOf(wide_grams.back(), /*vectors=*/true));
  }
  at::set_num_threads(threads);
  for (const size_t i : {1, 2}) {
    EXPECT_TRUE(SameBits(grams[0], grams[i]));
    EXPECT_TRUE(SameBits(wide_grams[0], wide_grams[i]));
    EXPECT_TRUE(SameBits(eigen[0].values, eigen[i].values));
    EXPECT_TRUE(SameBits(eigen[0].vectors, eigen[i].vectors));
  }
}

}  // namespace
}  // namespace ropelab::engine
