// Expected values printed by numpy 1.24; the lines that print them are in docs/random-numbers.md.
#include "worker/engine/random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace ropelab::engine {
namespace {

TEST(Philox, IsNumpysStream) {
  Philox stream(42, Purpose::kUniformTokens, 3);
  for (uint64_t expected : {0x90ef2bd764d8f9ceu, 0x41f13f0dde84819cu, 0x8ebca4ba6abe005bu,
                            0xcd20b19ed2e33022u, 0xde031912b1279a26u, 0x0eec6086da6e992cu}) {
    EXPECT_EQ(stream.Raw(), expected);
  }
}

TEST(Philox, TakesAllBitsOfSeedAndSample) {
  Philox stream(~uint64_t{0}, Purpose::kSampling, uint64_t{1} << 63);
  for (uint64_t expected : {0xaf2dc2ffcd5ee2feu, 0x99b8980d7e02f027u, 0x45f20e034e90dbe3u,
                            0xf480ffcc12bf8741u, 0x93900674c2badc3bu}) {
    EXPECT_EQ(stream.Raw(), expected);
  }
}

TEST(Philox, DoublesAreThoseOfNumpysGenerator) {
  Philox stream(42, Purpose::kSampling, 5);
  for (double expected : {0.48108476471822514, 0.6223755972031314, 0.11234712201211539, 0.8738781252127572,
                          0.248744728565524}) {
    EXPECT_EQ(stream.Double(), expected);
  }
}

TEST(Philox, IntegersAreTheHighProduct) {
  Philox stream(7, Purpose::kUniformTokens, 0);
  for (uint64_t expected : {882u, 369u, 517u, 331u, 718u, 717u, 382u, 928u}) {
    EXPECT_EQ(stream.Integer(1000), expected);
  }
}

TEST(Philox, ShufflesFromTheEnd) {
  std::vector<int> values = {0, 1, 2, 3, 4, 5, 6, 7};
  Philox({9, 4}, {0, 0, 0, 0}).Shuffle(std::span<int>(values));
  EXPECT_THAT(values, testing::ElementsAre(7, 3, 5, 1, 4, 2, 6, 0));
}

TEST(Philox, NormalsAreBoxAndMullers) {
  std::vector<double> values(5);
  Philox(42, Purpose::kGeometry, 0).Normals(values);
  const std::vector<double> expected = {1.4259557628032278, 0.6765563398916595, 0.7015309269766178,
                                        0.7138147588927376, -0.01772897095856839};
  EXPECT_THAT(values, testing::Pointwise(testing::DoubleNear(1e-15), expected));
}

TEST(Philox, CarriesIntoTheNextCounterWord) {
  Philox stream({1, 2}, {~uint64_t{0}, 0, 0, 0});
  Philox next({1, 2}, {0, 1, 0, 0});
  stream.Raw();
  for (int i = 0; i < 3; ++i) stream.Raw();
  EXPECT_EQ(stream.Raw(), next.Raw());
}

}  // namespace
}  // namespace ropelab::engine
