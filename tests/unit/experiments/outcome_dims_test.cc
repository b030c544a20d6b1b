// Which dimensions of a head an edit takes, and how many.
#include "server/experiments/outcome_dims.h"
#include "outcome_fakes.h"

namespace ropelab::experiments {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(OutcomeDims, AShareIsMeantAsItsDecimal) {
  EXPECT_EQ(DimsOfShare(0.125, 32), 4);
  EXPECT_EQ(DimsOfShare(0.375, 128), 48);
  EXPECT_EQ(DimsOfShare(0.07, 100), 7);  // the product of the doubles is above it
  EXPECT_EQ(DimsOfShare(1, 80), 80);
  EXPECT_EQ(DimsOfShare(0.1, 32), std::nullopt);
}

// Pair l is dimensions l and l + 8; pair 7 turns slowest.
TEST(OutcomeDims, FrequenciesTakeWholePairs) {
  const v1::ModelConfig config = PatchModel().config;
  EXPECT_THAT(LowestFrequencyDims(config, 2), ElementsAre(7, 15));
  EXPECT_THAT(LowestFrequencyDims(config, 4), ElementsAre(6, 7, 14, 15));
  EXPECT_THAT(HighestFrequencyDims(config, 4), ElementsAre(0, 1, 8, 9));
  EXPECT_EQ(LowestFrequencyDims(config, 16).size(), 16u);
}

TEST(OutcomeDims, TheOrderIsThatOfTheFrequenciesNotOfTheStorage) {
  v1::ModelConfig config = PatchModel().config;
  config.set_inv_freq(2, 1e-9);
  config.set_inv_freq(5, 2.0);
  EXPECT_THAT(LowestFrequencyDims(config, 2), ElementsAre(2, 10));
  EXPECT_THAT(HighestFrequencyDims(config, 2), ElementsAre(5, 13));
}

// numpy.random.Philox(key=[seed, 13], counter=[0, draw, layer, head]), shuffled as docs/random-numbers.md
// says.
TEST(OutcomeDims, RandomDimensionsAreNumpys) {
  EXPECT_THAT(RandomDimsOf(16, 2, false, 42, 0, 0, 2), ElementsAre(4, 15));
  EXPECT_THAT(RandomDimsOf(16, 4, false, 42, 0, 0, 2), ElementsAre(2, 4, 13, 15));
  EXPECT_THAT(RandomDimsOf(16, 4, false, 42, 1, 1, 3), ElementsAre(0, 11, 12, 14));
  EXPECT_THAT(RandomDimsOf(16, 4, true, 42, 2, 1, 3), ElementsAre(0, 5, 8, 13));
  EXPECT_THAT(RandomDimsOf(16, 4, false, 7, 0, 0, 2), ElementsAre(9, 11, 12, 15));
}

std::vector<std::string> Remedies(double share, bool whole_pairs) {
  Problems problems;
  CheckDimsShare(share, "patch.dims_share", whole_pairs, Facts{{PatchModel()}, {}}, problems);
  std::vector<std::string> remedies;
  for (const v1::FieldProblem& problem : problems.problems()) {
    remedies.push_back(problem.remedy());
  }
  return remedies;
}

TEST(OutcomeDims, AShareThatDoesNotFitIsRefusedWithThoseThatDo) {
  EXPECT_THAT(Remedies(0.125, true), IsEmpty());
  EXPECT_THAT(Remedies(0.0625, false), IsEmpty());
  EXPECT_THAT(Remedies(1, true), IsEmpty());
  EXPECT_THAT(
      Remedies(0.0625, true),
      ElementsAre("gives 1 of the 16 dimensions of model toy; conditions by frequency take whole pairs: "
                  "an even number, 2 to 16; 0.125 (2 dimensions) would do"));
  EXPECT_THAT(Remedies(0.3, true),
              ElementsAre(HasSubstr("0.25 (4 dimensions) or 0.375 (6 dimensions) would")));
  EXPECT_THAT(Remedies(0.3, false),
              ElementsAre(HasSubstr("0.25 (4 dimensions) or 0.3125 (5 dimensions) would do")));
  EXPECT_THAT(Remedies(0, true), ElementsAre(HasSubstr("above 0 and at most 1")));
  EXPECT_THAT(Remedies(1.5, false), ElementsAre(HasSubstr("above 0 and at most 1")));
}

}  // namespace
}  // namespace ropelab::experiments
