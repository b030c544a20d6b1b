#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/engine/removal_pairs.h"

namespace ropelab::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(RemovalPairs, AreNamedByFrequencyAndNotByStorage) {
  const std::vector<double> inv_freq = {0.5, 1.0, 0.01, 0.5};
  EXPECT_THAT(PairsByFrequency(inv_freq), ElementsAre(1, 0, 3, 2));
  const auto dimensions = DimensionsOfPairs({1, 3}, inv_freq);
  ASSERT_TRUE(dimensions.ok());
  EXPECT_THAT(*dimensions, ElementsAre(1, 3, 5, 7));
  EXPECT_TRUE(DimensionsOfPairs({}, inv_freq)->empty());
}

TEST(RemovalPairs, AreRefusedOutsideTheHeadOrTwice) {
  for (const std::vector<int64_t>& pairs : {std::vector<int64_t>{0}, {5}, {2, 2}, {3, 1}}) {
    const auto status = DimensionsOfPairs(pairs, {1.0, 0.1, 0.01, 0.001}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("pairs are 1 to 4"));
  }
}

}  // namespace
}  // namespace ropelab::engine
