// Spectra and norms of matrices made by hand.
#include "worker/measure/query_key_heads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ropelab::measure {
namespace {

// Two query heads and one key, of 600 tokens: more than one piece of rows.
constexpr int64_t kTokens = 600, kHeadDim = 8;

struct Layer {
  at::Tensor query = at::ones({kTokens, 2, kHeadDim}), key = at::ones({kTokens, 1, kHeadDim}),
             hidden = at::ones({kTokens, 5});
};

v1::LayerSpectra Of(const Layer& layer, double energy = 0.95) {
  auto spectra = SpectraOfLayer(layer.query, layer.key, layer.hidden, energy);
  EXPECT_TRUE(spectra.ok()) << spectra.status();
  return spectra.value_or(v1::LayerSpectra());
}

TEST(QueryKeyHeads, AHeadOfOneDirectionHasRankOneAndOneOfAllDirectionsHasAll) {
  Layer layer;
  layer.query.select(1, 1).copy_(at::eye(kHeadDim).repeat({kTokens / kHeadDim, 1}));
  layer.hidden.copy_(at::eye(5).repeat({kTokens / 5, 1}));
  const v1::LayerSpectra spectra = Of(layer);
  EXPECT_DOUBLE_EQ(spectra.query_r1(0), 1.0);
  EXPECT_EQ(spectra.query_rank(0), 1);
  EXPECT_NEAR(spectra.query_r1(1), 1.0 / 8, 1e-15);
  EXPECT_EQ(spectra.query_rank(1), 8);
  EXPECT_DOUBLE_EQ(spectra.key_r1(0), 1.0);
  EXPECT_NEAR(spectra.hidden_r1(), 0.2, 1e-15);
  EXPECT_EQ(spectra.hidden_rank(), 5);
  EXPECT_EQ(Of(layer, 0.8).hidden_rank(), 4);
  // All norms are equal, and their mean is rounded.
  for (const int head : {0, 1}) EXPECT_NEAR(spectra.query_norm_rv(head), 0.0, 1e-13);
}

TEST(QueryKeyHeads, NormsVaryAroundTheirMeanWithoutACorrection) {
  Layer layer;
  layer.query.zero_();
  // Norms 3 and 4 in turn, in other directions: std 1/2, mean 7/2. Then all 0 but one of 600: std = sqrt(599)
  // times the mean.
  for (int64_t token = 0; token < kTokens; ++token)
    layer.query[token][0][token % 8] = token % 2 == 0 ? 3 : -4;
  layer.query[20][1][2] = 5;
  const v1::LayerSpectra spectra = Of(layer);
  EXPECT_NEAR(spectra.query_norm_rv(0), 1.0 / 7, 1e-14);
  EXPECT_NEAR(spectra.query_norm_rv(1), std::sqrt(599.0), 1e-10);
  EXPECT_DOUBLE_EQ(spectra.query_r1(1), 1.0);
  EXPECT_EQ(spectra.query_rank(1), 1);
}

TEST(QueryKeyHeads, AHeadOfZerosHasNoDirectionAtAll) {
  Layer layer;
  layer.key.zero_();
  layer.hidden.zero_();
  const v1::LayerSpectra spectra = Of(layer);
  EXPECT_TRUE(std::isnan(spectra.key_r1(0)));
  EXPECT_EQ(spectra.key_rank(0), 0);
  EXPECT_TRUE(std::isnan(spectra.key_norm_rv(0)));
  EXPECT_TRUE(std::isnan(spectra.hidden_r1()));
  EXPECT_EQ(spectra.hidden_rank(), 0);
}

TEST(QueryKeyHeads, WhatIsNotFiniteIsRefusedByName) {
  const auto refusal = [](const Layer& layer) {
    const absl::Status status = SpectraOfLayer(layer.query, layer.key, layer.hidden, 0.95).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    return std::string(status.message());
  };
  Layer query, key, hidden;
  query.query[599][1][3] = std::numeric_limits<float>::quiet_NaN();
  key.key[0][0][0] = std::numeric_limits<float>::infinity();
  hidden.hidden[1][4] = -std::numeric_limits<float>::infinity();
  EXPECT_THAT(refusal(query), testing::HasSubstr("the query of head 1"));
  EXPECT_THAT(refusal(key), testing::HasSubstr("the key of KV head 0"));
  EXPECT_THAT(refusal(hidden), testing::HasSubstr("the hidden state"));
  Layer large;
  large.query.fill_(3e38);
  EXPECT_DOUBLE_EQ(Of(large).query_r1(0), 1.0);
}

}  // namespace
}  // namespace ropelab::measure
