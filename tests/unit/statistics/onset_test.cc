#include "server/statistics/onset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "server/statistics/quantiles.h"

namespace ropelab::statistics {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<double> Step(int n, int at) {
  std::vector<double> counts(static_cast<size_t>(n), 100);
  std::fill(counts.begin() + at, counts.end(), 300);
  return counts;
}

TEST(Onset, EdgesOfTheRunningMedianTakeTheNearestFullWindow) {
  EXPECT_THAT(RunningMedian(std::vector<double>{9, 1, 5, 3, 7, 8}, 5), ElementsAre(5, 5, 5, 5, 5, 5));
  EXPECT_THAT(RunningMedian(std::vector<double>{9, 1, 5, 3, 7, 8}, 3), ElementsAre(5, 5, 3, 5, 7, 7));
  EXPECT_THAT(RunningMedian(std::vector<double>{4, 2}, 5), ElementsAre(4, 2));
  EXPECT_DOUBLE_EQ(Median(std::vector<double>{4, 1, 3, 2}), 2.5);
}

// Every step of up to 43 checkpoints that leaves six on both sides, with one count replaced anywhere: by a
// count of the other side, a spike or a gap. (Of more checkpoints a step six from the end lies within the
// quarter whose median is the level.)
TEST(Onset, OneWrongCountFarFromTheStepMovesNothingAndANearOneAtMostOnePlace) {
  for (int n = 12; n <= 43; ++n) {
    for (int at = 6; at <= n - 6; ++at) {
      EXPECT_EQ(SmoothedOnset(Step(n, at), 5)->index, at);
      for (int flip = 0; flip < n; ++flip) {
        for (const double count : {0.0, 100.0, 300.0, 5000.0}) {
          std::vector<double> counts = Step(n, at);
          counts[static_cast<size_t>(flip)] = count;
          const Defined<Onset> onset = SmoothedOnset(counts, 5);
          ASSERT_TRUE(onset.has_value()) << n << " " << at << " " << flip << " " << count;
          const int64_t moved = std::abs(onset->index - at);
          ASSERT_LE(moved, std::abs(flip - at) >= 4 ? 0 : 1) << n << " " << at << " " << flip << " " << count;
        }
      }
    }
  }
}

TEST(Onset, SaysLevelsAndMidpoint) {
  const Defined<Onset> onset = SmoothedOnset(Step(20, 9), 5);
  EXPECT_EQ(onset->index, 9);
  EXPECT_DOUBLE_EQ(onset->low, 100);
  EXPECT_DOUBLE_EQ(onset->high, 300);
  EXPECT_DOUBLE_EQ(onset->midpoint, 200);
}

TEST(Onset, ACountAtTheMidpointIsNotAboveIt) {
  EXPECT_EQ(SmoothedOnset(std::vector<double>{0, 0, 0, 5, 5, 5, 10, 10, 10}, 1)->index, 6);
}

TEST(Onset, ARiseThatFallsBackIsNone) {
  EXPECT_THAT(SmoothedOnset(std::vector<double>(20, 7), 5).because(), HasSubstr("no higher at the end"));
  std::vector<double> hump = Step(20, 8);
  std::fill(hump.begin() + 14, hump.end(), 50);
  EXPECT_THAT(SmoothedOnset(hump, 5).because(), HasSubstr("no higher at the end"));
  std::vector<double> dip = Step(16, 8);
  dip[15] = dip[14] = 0;  // two of the last quarter's four, whose median is then 150
  EXPECT_THAT(SmoothedOnset(dip, 1).because(), HasSubstr("ends at or below"));
}

TEST(Onset, NeedsFiveCheckpointsAndTheWindow) {
  const std::vector<double> four = {1, 2, 3, 4}, six = {1, 1, 1, 5, 5, 5};
  EXPECT_FALSE(SmoothedOnset(four, 3).has_value());
  EXPECT_FALSE(SmoothedOnset(six, 7).has_value());
  EXPECT_TRUE(SmoothedOnset(six, 5).has_value());
}

TEST(Onset, ThePapersDetectorTakesTheFirstCountAtTheMidpoint) {
  // Ten counts: the first two have the median 2, the largest is 12, the midpoint 7.
  const std::vector<double> counts = {1, 3, 2, 7, 2, 2, 9, 12, 11, 10};
  const Defined<Onset> onset = PaperOnset(counts);
  ASSERT_TRUE(onset.has_value());
  EXPECT_EQ(onset->index, 3);
  EXPECT_DOUBLE_EQ(onset->low, 2);
  EXPECT_DOUBLE_EQ(onset->midpoint, 7);
  EXPECT_EQ(PaperOnset(std::vector<double>{1, 2, 9})->index, 2);
  EXPECT_FALSE(PaperOnset(std::vector<double>{4, 4, 4, 4, 4, 4}).has_value());
  EXPECT_FALSE(PaperOnset(std::vector<double>{}).has_value());
}

TEST(Onset, OneSpikeMovesThePapersDetectorWhichIsWhyItIsNotTheDefault) {
  std::vector<double> counts = Step(20, 12);
  counts[3] = 290;
  EXPECT_EQ(PaperOnset(counts)->index, 3);
  EXPECT_EQ(SmoothedOnset(counts, 5)->index, 12);
}

}  // namespace
}  // namespace ropelab::statistics
