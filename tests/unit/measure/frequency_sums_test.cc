// Heat maps of long rows come in pieces that a reading can hold.
#include "worker/measure/frequency_sums.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/unit/measure/list_recorder.h"

namespace ropelab::measure {
namespace {

TEST(FrequencySums, LongRowsAreSaidInPiecesOfWholePairs) {
  constexpr int64_t kTokens = 20001, kPairs = 4;
  v1::FrequencyProfile request;
  request.add_heads()->set_head(7);
  request.add_rows(kTokens - 1);
  FrequencySums sums(request, 0, 2 * kPairs);
  // Every query is (1, 0) and key j is (j mod 5 + pair, 9).
  at::Tensor query = at::zeros({2 * kPairs, kTokens}), key = at::full({2 * kPairs, kTokens}, 9.0f);
  query.narrow(0, 0, kPairs).fill_(1.0f);
  for (int64_t pair = 0; pair < kPairs; ++pair) {
    for (int64_t j = 0; j < kTokens; ++j) {
      key.data_ptr<float>()[pair * kTokens + j] = static_cast<float>(j % 5 + pair);
    }
  }
  const FrequencyPairs pairs{{3, 0, 1, 2}, {0.4, 0.3, 0.2, 0.1}};
  ASSERT_TRUE(sums.Add({query, key}, {query, key}, pairs).ok());
  ListRecorder recorder;
  ASSERT_TRUE(sums.Emit(1.0, recorder).ok());
  ASSERT_EQ(recorder.readings.size(), 3u);  // the figures, three pairs, one pair
  std::vector<double> products;
  for (size_t i = 1; i < recorder.readings.size(); ++i) {
    const v1::HeatMapPiece& piece = recorder.readings[i].heat_map_piece();
    EXPECT_LE(recorder.readings[i].ByteSizeLong(), size_t{520} << 10);
    EXPECT_EQ(piece.first_pair(), i == 1 ? 1 : 4);
    EXPECT_EQ(piece.pairs(), i == 1 ? 3 : 1);
    products.insert(products.end(), piece.inp().begin(), piece.inp().end());
    // 0..4 equally often, but for one 0 more.
    for (const double std : piece.std()) EXPECT_NEAR(std, std::sqrt(2.0), 1e-4);
  }
  ASSERT_EQ(products.size(), static_cast<size_t>(kPairs * kTokens));
  for (int64_t pair = 0; pair < kPairs; ++pair) {
    for (const int64_t j : {int64_t{0}, int64_t{3}, kTokens - 1}) {
      EXPECT_EQ(products[pair * kTokens + j], static_cast<double>(j % 5 + pairs.places[pair]));
    }
  }
}

}  // namespace
}  // namespace ropelab::measure
