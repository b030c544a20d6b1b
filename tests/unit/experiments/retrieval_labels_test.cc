#include "server/experiments/retrieval_labels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace ropelab::experiments {
namespace {

using testing::ElementsAre;

// In whole numbers: ⌈k·n / 100⌉.
TEST(HitsNeeded, TakesTheThresholdAsItsDecimal) {
  for (int64_t k = 1; k <= 100; ++k) {
    for (int64_t n = 1; n <= 300; ++n) {
      const double threshold = static_cast<double>(k) / 100;
      EXPECT_EQ(HitsNeeded(threshold, n), (k * n + 99) / 100) << threshold << " of " << n;
    }
  }
  EXPECT_EQ(HitsNeeded(0.07, 100), 7);  // the product of the doubles is 7.000000000000001
}

TEST(HitsNeeded, OddDecimalsAndExtremes) {
  EXPECT_EQ(HitsNeeded(0.125, 8), 1);
  EXPECT_EQ(HitsNeeded(0.125, 9), 2);
  EXPECT_EQ(HitsNeeded(1e-9, 5), 1);
  EXPECT_EQ(HitsNeeded(1e-300, 1000000), 1);
  EXPECT_EQ(HitsNeeded(0.333333333333333, 3), 1);
  EXPECT_EQ(HitsNeeded(0.3333333333333334, 3), 2);
  EXPECT_EQ(HitsNeeded(1, 1000000), 1000000);
  EXPECT_EQ(HitsNeeded(0.1, 0), 0);
  EXPECT_EQ(ShareOf(0.34, 3), 2);
  EXPECT_EQ(ShareOf(0.07, 100), 7);
}

HeadFigures Head(int64_t layer, int64_t head, double score, double mass, int64_t hits) {
  HeadFigures figures;
  figures.layer = layer;
  figures.head = head;
  figures.score = score;
  figures.mass = mass;
  figures.hits = hits;
  figures.samples = 25;
  return figures;
}

TEST(RankedHeads, TiesGoByMassThenByPlace) {
  EXPECT_THAT(RankedHeads({Head(1, 1, 0.5, 0.2, 0), Head(0, 3, 0.5, 0.2, 0), Head(0, 0, 0.5, 0.1, 0),
                           Head(0, 1, 0.5, 0.3, 0), Head(1, 0, 0.7, 0.0, 0)}),
              ElementsAre(4, 3, 1, 0, 2));
}

TEST(RetrievalLabels, ByHitsByMassAndByTheArgmaxSetsSize) {
  // 0.1 of 25 samples are 3 hits; 2 are not enough.
  const std::vector<HeadFigures> heads = {Head(0, 0, 0.099, 0.099, 3), Head(0, 1, 0.1, 0.1, 2),
                                          Head(1, 0, 0.4, 0.4, 25), Head(1, 1, 0.3, 0.3, 0)};
  EXPECT_THAT(RetrievalLabels(v1::Metric::ARGMAX, heads, 0.1), ElementsAre(true, false, true, false));
  EXPECT_THAT(RetrievalLabels(v1::Metric::MASS, heads, 0.1), ElementsAre(false, true, true, true));
  EXPECT_THAT(RetrievalLabels(v1::Metric::COPY_WU, heads, 0.1), ElementsAre(false, false, true, true));
  EXPECT_THAT(RetrievalLabels(v1::Metric::COPY_PAPER, heads, 1), ElementsAre(false, false, true, false));
}

TEST(RetrievalLabels, WithoutSamplesThereAreNone) {
  std::vector<HeadFigures> heads = {Head(0, 0, 0, 0, 0)};
  heads[0].samples = 0;
  for (const auto metric : {v1::Metric::ARGMAX, v1::Metric::MASS, v1::Metric::COPY_WU}) {
    EXPECT_THAT(RetrievalLabels(metric, heads, 0.1), ElementsAre(false));
  }
}

TEST(Metrics, HaveTheNamesThatTablesWrite) {
  EXPECT_EQ(MetricName(v1::Metric::COPY_PAPER_PER_TOKEN), "copy_paper_per_token");
  EXPECT_EQ(*MetricNamed("copy_wu"), v1::Metric::COPY_WU);
  EXPECT_EQ(MetricNamed("argmin").status().message(),
            "no metric \"argmin\"; there are argmax, mass, copy_paper, copy_paper_per_token, copy_wu");
}

}  // namespace
}  // namespace ropelab::experiments
