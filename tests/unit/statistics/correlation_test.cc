// Against scipy 1.10.1 and hand computation; random cases stand in tests/e2e/statistics_test.py.
#include "server/statistics/correlation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace ropelab::statistics {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<double> kX = {1, 2, 3, 4, 5, 6}, kY = {2, 1, 4, 4, 7, 9};

TEST(Correlation, EqualValuesShareTheMeanOfTheirRanks) {
  EXPECT_THAT(AverageRanks(std::vector<double>{3, 1, 3, 2, 3}), ElementsAre(4, 1, 4, 2, 4));
  EXPECT_TRUE(AverageRanks(std::vector<double>{}).empty());
}

TEST(Correlation, PearsonAndSpearmanEqualScipy) {
  EXPECT_NEAR(*Pearson(kX, kY), 0.9391201333182924, 1e-14);
  EXPECT_NEAR(*Spearman(kX, kY), 0.9276336570439175, 1e-14);
}

TEST(Correlation, IsUndefinedWhereNothingVaries) {
  const std::vector<double> equal(6, 0.1), one = {1};
  EXPECT_THAT(Pearson(kX, equal).because(), HasSubstr("does not vary"));
  EXPECT_THAT(Spearman(equal, kY).because(), HasSubstr("does not vary"));
  EXPECT_THAT(Pearson(one, one).because(), HasSubstr("fewer than two"));
}

// x rises with the layer and falls within it; y rises with both.
std::vector<LayeredPair> Opposed() {
  return {{0, 3, 1}, {0, 2, 2}, {0, 1, 3}, {1, 13, 11}, {1, 12, 12}, {1, 11, 13}};
}

TEST(Correlation, HoldingTheLayerFixedTurnsASharedTrendAround) {
  std::vector<double> x, y;
  for (const LayeredPair& pair : Opposed()) {
    x.push_back(pair.x);
    y.push_back(pair.y);
  }
  EXPECT_GT(*Spearman(x, y), 0.5);
  EXPECT_DOUBLE_EQ(*PartialSpearman(Opposed(), PartialOrder::kDemeanFirst), -1);
  EXPECT_DOUBLE_EQ(*PartialSpearman(Opposed(), PartialOrder::kRankFirst), -1);
}

TEST(Correlation, TheOrderOfRankingAndDemeaningMatters) {
  // Less its layer's mean x is -5, 5, -0.5, 0.5 and y -0.5, 0.5, 0.05, -0.05: ranks 1, 4, 2, 3 and 1, 4, 3,
  // 2, whose products about 2.5 add up to 2.25 + 2.25 - 0.25 - 0.25 = 4 of 5. Ranked first x is 1, 2, 3, 4
  // and y 1, 2, 4, 3; less its layer's mean -0.5, 0.5, -0.5, 0.5 and -0.5, 0.5, 0.5, -0.5: 0.
  const std::vector<LayeredPair> pairs = {{0, 0, 0}, {0, 10, 1}, {1, 100, 5}, {1, 101, 4.9}};
  EXPECT_NEAR(*PartialSpearman(pairs, PartialOrder::kDemeanFirst), 0.8, 1e-15);
  EXPECT_NEAR(*PartialSpearman(pairs, PartialOrder::kRankFirst), 0, 1e-15);
}

TEST(Correlation, ValuesThatDemeaningMakesEqualStayTied) {
  // 0.3 - 0.2 and 0.2 - 0.1 differ in the last bit; both are the upper one of their layer.
  const std::vector<LayeredPair> pairs = {{0, 0.1, 1}, {0, 0.3, 2}, {1, 0.0, 1},
                                          {1, 0.2, 2}, {2, 7, 3},   {2, 7, 9}};
  std::vector<LayeredPair> whole;
  for (const LayeredPair& pair : pairs) {
    whole.push_back({pair.layer, pair.x * 10, pair.y});
  }
  whole[0].x = 1, whole[1].x = 3, whole[2].x = 0, whole[3].x = 2;  // exact
  EXPECT_DOUBLE_EQ(*PartialSpearman(pairs, PartialOrder::kDemeanFirst),
                   *PartialSpearman(whole, PartialOrder::kDemeanFirst));
}

TEST(Correlation, SaysThatNothingVariesWithinTheLayers) {
  const std::vector<LayeredPair> pairs = {{0, 1, 1}, {0, 2, 1}, {1, 5, 2}, {1, 7, 2}};
  for (const PartialOrder order : {PartialOrder::kDemeanFirst, PartialOrder::kRankFirst}) {
    EXPECT_THAT(PartialSpearman(pairs, order).because(), HasSubstr("within the layers"));
    EXPECT_THAT(BootstrapPartialSpearman(pairs, order, 50, 1).because(), HasSubstr("no draw"));
  }
  const std::vector<LayeredPair> one = {{0, 1, 1}, {0, 2, 2}};
  EXPECT_THAT(BootstrapPartialSpearman(one, PartialOrder::kDemeanFirst, 50, 1).because(),
              HasSubstr("fewer than two layers"));
}

TEST(Correlation, AnIntervalCountsTheDrawsThatDefineACorrelation) {
  // x varies in layer 0 alone: three of four draws of two layers hold it.
  const std::vector<LayeredPair> pairs = {{0, 1, 1}, {0, 2, 2}, {1, 5, 5}, {1, 5, 6}};
  const Defined<Interval> interval = BootstrapPartialSpearman(pairs, PartialOrder::kDemeanFirst, 4000, 42);
  ASSERT_TRUE(interval.has_value());
  EXPECT_NEAR(static_cast<double>(interval->resamples) / 4000, 0.75, 0.035);
  EXPECT_LE(interval->low, interval->high);
  EXPECT_DOUBLE_EQ(interval->high, 1);  // layer 0 twice
}

}  // namespace
}  // namespace ropelab::statistics
