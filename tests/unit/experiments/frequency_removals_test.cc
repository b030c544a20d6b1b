// The lists of 64 pairs are those that the definition writes out; others are worked by hand from its formula.
#include "server/experiments/frequency_removals.h"
#include "fakes.h"

namespace ropelab::experiments {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::vector<int32_t>> Removed(int64_t pairs, v1::PerBand::Value per_band) {
  std::vector<std::vector<int32_t>> removed;
  for (const FrequencyBand& band : BandsOf(pairs)) {
    removed.push_back(PairsOfBand(band, pairs, per_band));
  }
  return removed;
}

TEST(FrequencyRemovals, SixOfEachBandOf64Pairs) {
  const std::vector<FrequencyBand> bands = BandsOf(64);
  ASSERT_EQ(bands.size(), 3u);
  EXPECT_STREQ(bands[0].name, "high");
  EXPECT_EQ(bands[0].first, 1);
  EXPECT_EQ(bands[0].last, 21);
  EXPECT_EQ(bands[1].first, 22);
  EXPECT_EQ(bands[1].last, 42);
  EXPECT_EQ(bands[2].first, 43);
  EXPECT_EQ(bands[2].last, 64);
  for (const auto per_band : {v1::PerBand::SIX, v1::PerBand::PROPORTIONAL}) {
    EXPECT_THAT(Removed(64, per_band),
                ElementsAre(ElementsAre(1, 5, 9, 13, 17, 21), ElementsAre(22, 26, 30, 34, 38, 42),
                            ElementsAre(43, 47, 51, 56, 60, 64)));
  }
}

TEST(FrequencyRemovals, ASmallBandIsRemovedWholeAndMayBeEmpty) {
  EXPECT_THAT(Removed(8, v1::PerBand::SIX),
              ElementsAre(ElementsAre(1, 2), ElementsAre(3, 4, 5), ElementsAre(6, 7, 8)));
  EXPECT_THAT(Removed(2, v1::PerBand::SIX), ElementsAre(IsEmpty(), ElementsAre(1), ElementsAre(2)));
  EXPECT_THAT(Removed(1, v1::PerBand::SIX), ElementsAre(IsEmpty(), IsEmpty(), ElementsAre(1)));
  // Bands 1-6, 7-13, 14-20: six of seven leave one out, where the steps of 6/5 round past it.
  EXPECT_THAT(Removed(20, v1::PerBand::SIX),
              ElementsAre(ElementsAre(1, 2, 3, 4, 5, 6), ElementsAre(7, 8, 9, 11, 12, 13),
                          ElementsAre(14, 15, 16, 18, 19, 20)));
}

TEST(FrequencyRemovals, ProportionalScalesSixOf64) {
  // floor(6 * 8 / 64 + 1/2) = 1, floor(6 * 32 / 64 + 1/2) = 3, floor(6 * 128 / 64 + 1/2) = 12.
  EXPECT_THAT(Removed(8, v1::PerBand::PROPORTIONAL),
              ElementsAre(ElementsAre(1), ElementsAre(3), ElementsAre(6)));
  EXPECT_THAT(Removed(32, v1::PerBand::PROPORTIONAL),
              ElementsAre(ElementsAre(1, 6, 10), ElementsAre(11, 16, 21), ElementsAre(22, 27, 32)));
  const auto wide = Removed(128, v1::PerBand::PROPORTIONAL);
  EXPECT_THAT(wide[0], ElementsAre(1, 5, 8, 12, 16, 20, 23, 27, 31, 35, 38, 42));
  // At least one pair is taken, however few there are.
  EXPECT_THAT(Removed(4, v1::PerBand::PROPORTIONAL),
              ElementsAre(ElementsAre(1), ElementsAre(2), ElementsAre(3)));
}

TEST(FrequencyRemovals, EachListIsMeasuredOnceAfterTheScoreAsItIs) {
  const auto analysis = FromText<v1::FrequencyAnalysis>(
      "removals { bands: true per_band: PROPORTIONAL each_pair: true } removals { pairs: [1, 2] } "
      "removals { pairs: [3] }");
  const RemovalPlan plan = RemovalsOf(analysis, 4);
  // Bands take 1, 2 and 3, each a pair of the sweep as well.
  EXPECT_THAT(plan.lists, ElementsAre(IsEmpty(), ElementsAre(1), ElementsAre(2), ElementsAre(3),
                                      ElementsAre(4), ElementsAre(1, 2)));
  ASSERT_EQ(plan.removals.size(), 9u);
  std::vector<std::string> bands;
  std::vector<size_t> lists;
  for (const NamedRemoval& removal : plan.removals) {
    bands.push_back(removal.band);
    lists.push_back(removal.list);
  }
  EXPECT_THAT(bands, ElementsAre("high", "medium", "low", "pair", "pair", "pair", "pair", "list", "list"));
  EXPECT_THAT(lists, ElementsAre(1u, 2u, 3u, 1u, 2u, 3u, 4u, 5u, 3u));
  EXPECT_EQ(RemovedText(plan.removals[7].pairs), "1 2");
}

TEST(FrequencyRemovals, AnEmptyBandIsCountedAndNotRemoved) {
  const RemovalPlan plan = RemovalsOf(FromText<v1::FrequencyAnalysis>("removals { bands: true }"), 2);
  ASSERT_EQ(plan.bands.size(), 3u);
  EXPECT_EQ(plan.bands[0].removed, 0);
  EXPECT_EQ(plan.bands[0].band.size(), 0);
  EXPECT_EQ(plan.bands[1].removed, 1);
  EXPECT_THAT(plan.lists, ElementsAre(IsEmpty(), ElementsAre(1), ElementsAre(2)));
}

TEST(FrequencyRemovals, NothingToRemoveIsNothingToMeasure) {
  EXPECT_TRUE(RemovalsOf(v1::FrequencyAnalysis(), 8).lists.empty());
}

}  // namespace
}  // namespace ropelab::experiments
