#include "server/statistics/multiple.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace ropelab::statistics {
namespace {

using testing::ElementsAre;

TEST(BenjaminiHochberg, RejectsWhatTheAuthorsExampleRejects) {
  // Benjamini and Hochberg 1995, section 3.2: of these fifteen hypotheses four are rejected at 0.05.
  const std::vector<double> p = {0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344,
                                 0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.000};
  const std::vector<double> adjusted = BenjaminiHochberg(p);
  EXPECT_EQ(std::count_if(adjusted.begin(), adjusted.end(), [](double q) { return q <= 0.05; }), 4);
  EXPECT_DOUBLE_EQ(adjusted[0], 0.0015);
  EXPECT_DOUBLE_EQ(adjusted[14], 1);
}

TEST(BenjaminiHochberg, KeepsTheOrderAndNeverFallsBelowASmallerP) {
  // By hand: 0.04 * 4 / 3, 0.01 * 4 / 2 for both of a tie, and 0.9.
  const std::vector<double> adjusted = BenjaminiHochberg(std::vector<double>{0.04, 0.01, 0.9, 0.01});
  EXPECT_THAT(adjusted, ElementsAre(testing::DoubleEq(0.16 / 3), testing::DoubleEq(0.02),
                                    testing::DoubleEq(0.9), testing::DoubleEq(0.02)));
  EXPECT_TRUE(BenjaminiHochberg(std::vector<double>()).empty());
  EXPECT_THAT(BenjaminiHochberg(std::vector<double>{0.3}), ElementsAre(0.3));
}

}  // namespace
}  // namespace ropelab::statistics
