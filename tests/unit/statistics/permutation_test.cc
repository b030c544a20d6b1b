#include "server/statistics/permutation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace ropelab::statistics {
namespace {

// Three layers of different level and share of labels; the last one bears one label only.
std::vector<LabelledHead> ThreeLayers() {
  return {{0, 1.0, true},  {0, 2.5, false},  {0, 4.0, true},   {0, 3.0, false}, {1, 11.0, false},
          {1, 13.5, true}, {1, 12.0, false}, {1, 10.0, false}, {2, 7.0, false}, {2, 8.0, false}};
}

struct Exact {
  double mean = 0, paper = 0, centred = 0;  // over all labellings, the observed one among them
};

// Every choice of two of layer 0 and of one of layer 1: 6 * 4 labellings.
Exact Enumerate(const std::vector<LabelledHead>& heads) {
  std::vector<double> all;
  double total = 0;
  for (const LabelledHead& head : heads) {
    total += head.value;
  }
  for (int i = 0; i < 4; ++i) {
    for (int j = i + 1; j < 4; ++j) {
      for (int k = 4; k < 8; ++k) {
        const double sum = heads[i].value + heads[j].value + heads[k].value;
        all.push_back(sum / 3 - (total - sum) / 7);
      }
    }
  }
  Exact exact;
  for (const double t : all) {
    exact.mean += t / 24;
  }
  const double observed = *DifferenceOfMeans(heads);
  for (const double t : all) {
    exact.paper += std::abs(t) >= std::abs(observed) - 1e-9 ? 1.0 / 24 : 0;
    exact.centred += std::abs(t - exact.mean) >= std::abs(observed - exact.mean) - 1e-9 ? 1.0 / 24 : 0;
  }
  return exact;
}

TEST(PermutationTest, TakesTheDifferenceOverAllHeads) {
  // (1 + 4 + 13.5) / 3 - (2.5 + 3 + 11 + 12 + 10 + 7 + 8) / 7
  EXPECT_DOUBLE_EQ(*DifferenceOfMeans(ThreeLayers()), 18.5 / 3 - 53.5 / 7);
}

TEST(PermutationTest, GivesTheExactNullMeanAndTheEnumeratedPWithinMonteCarloError) {
  const std::vector<LabelledHead> heads = ThreeLayers();
  const Exact exact = Enumerate(heads);
  const Defined<PermutationTest> test = ClusteredPermutationTest(heads, 40000, 42);
  ASSERT_TRUE(test.has_value());
  EXPECT_NEAR(test->null_mean, exact.mean, 1e-12);
  EXPECT_EQ(test->layers, 3);
  EXPECT_EQ(test->layers_without_both, 1);
  EXPECT_EQ(test->permutations, 40000);
  // Five standard errors of a share of 40 000 draws.
  const auto error = [](double p) { return 5 * std::sqrt(p * (1 - p) / 40000) + 1.0 / 40000; };
  EXPECT_NEAR(*test->p_paper, exact.paper, error(exact.paper));
  EXPECT_NEAR(*test->p_centred, exact.centred, error(exact.centred));
  EXPECT_GT(std::abs(exact.paper - exact.centred), 0.1);  // or the two would not be told apart
}

TEST(PermutationTest, AnEffectThatIsAllBetweenLayersIsNotCentredAtZero) {
  // Values depend on the layer alone: T is wholly the layers' doing, and every permutation gives it again.
  std::vector<LabelledHead> heads;
  for (int i = 0; i < 8; ++i) {
    heads.push_back({0, 1.0, i < 1});
    heads.push_back({1, 5.0, i < 7});
  }
  const Defined<PermutationTest> test = ClusteredPermutationTest(heads, 1000, 42);
  EXPECT_DOUBLE_EQ(test->difference, 36.0 / 8 - 12.0 / 8);
  EXPECT_DOUBLE_EQ(test->null_mean, test->difference);
  EXPECT_DOUBLE_EQ(*test->p_paper, 1);
  EXPECT_DOUBLE_EQ(*test->p_centred, 1);
}

TEST(PermutationTest, TheLeastPIsOneOverOneMoreThanTheDraws) {
  std::vector<LabelledHead> heads;
  for (int64_t layer = 0; layer < 20; ++layer) {
    for (int i = 0; i < 10; ++i) {
      heads.push_back({layer, i < 3 ? 100.0 + i : 0.1 * i, i < 3});
    }
  }
  const Defined<PermutationTest> test = ClusteredPermutationTest(heads, 9999, 7);
  EXPECT_DOUBLE_EQ(*test->p_paper, 1e-4);
  EXPECT_DOUBLE_EQ(*test->p_centred, 1e-4);
}

TEST(PermutationTest, FollowsTheDocumentedDraws) {
  // docs/random-numbers.md: of one layer of four heads with two labels the first three permutations under
  // seed 42 label [2, 3], [0, 2] and [0, 1]. T* are 2, -1/2... of values 0, 1, 2, 4: (2+4)/2 - 1/2 = 2.5,
  // 1 - 2.5 = -1.5, 0.5 - 3 = -2.5; T of heads 0 and 3 is 2 - 1.5 = 0.5, and all three reach it.
  const std::vector<LabelledHead> heads = {{0, 0, true}, {0, 1, false}, {0, 2, false}, {0, 4, true}};
  EXPECT_DOUBLE_EQ(*ClusteredPermutationTest(heads, 3, 42)->p_paper, 1);
  // T of heads 0 and 2 is 1 - 2.5 = -1.5: all three reach it; of heads 2 and 3 it is 2.5: the first and the
  // third do.
  const std::vector<LabelledHead> upper = {{0, 0, false}, {0, 1, false}, {0, 2, true}, {0, 4, true}};
  EXPECT_DOUBLE_EQ(*ClusteredPermutationTest(upper, 3, 42)->p_paper, 3.0 / 4);
  EXPECT_DOUBLE_EQ(*ClusteredPermutationTest(upper, 2, 42)->p_paper, 2.0 / 3);
  EXPECT_DOUBLE_EQ(*ClusteredPermutationTest(upper, 1, 42)->p_paper, 1);
}

TEST(PermutationTest, SaysWhatIsUndefined) {
  const std::vector<LabelledHead> none = {{0, 1, false}, {1, 2, false}}, all = {{0, 1, true}, {1, 2, true}};
  EXPECT_THAT(ClusteredPermutationTest(none, 100, 1).because(), testing::HasSubstr("no head is labelled"));
  EXPECT_THAT(ClusteredPermutationTest(all, 100, 1).because(), testing::HasSubstr("every head is labelled"));
  const std::vector<LabelledHead> apart = {{0, 1, true}, {1, 2, false}};
  const Defined<PermutationTest> test = ClusteredPermutationTest(apart, 100, 1);
  ASSERT_TRUE(test.has_value());
  EXPECT_DOUBLE_EQ(test->difference, -1);
  EXPECT_EQ(test->layers_without_both, 2);
  EXPECT_FALSE(test->p_centred.has_value());
  EXPECT_THAT(test->p_paper.because(), testing::HasSubstr("nothing can be permuted"));
}

TEST(PermutationTest, EqualValuesAreTiesWhateverTheSumsRoundTo) {
  std::vector<LabelledHead> heads;
  for (int i = 0; i < 30; ++i) {
    heads.push_back({i % 3, 0.1, i % 7 == 0});
  }
  EXPECT_DOUBLE_EQ(*ClusteredPermutationTest(heads, 500, 3)->p_centred, 1);
}

}  // namespace
}  // namespace ropelab::statistics
