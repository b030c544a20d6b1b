// The demo's golden values, and varying content against the demo's own code run in numpy on our stream of
// normals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/unit/measure/list_recorder.h"
#include "worker/formats/safetensors.h"

namespace ropelab::measure {
namespace {

v1::Measurement Demo(v1::Content::Value content) {
  v1::Measurement measurement;
  v1::RopeGeometryFigures& request = *measurement.mutable_rope_geometry();
  request.set_head_dim(8);
  for (double theta : {1.0, 0.1, 0.01, 0.001}) request.add_theta(theta);
  request.set_positions(16);
  request.set_layout(v1::PairLayout::INTERLEAVED);
  for (double x : {1.5746411431681302, 0.7432833867028191, -0.9698888175576575, -0.2120044493626771,
                   -0.2867299190012126, 2.3624189202137407, -0.943225489608639, 1.3757948597156504}) {
    request.add_query(x);
  }
  for (double x : {0.12317992062651277, 1.0218538102952426, -0.0027781216332353766, 0.3927701046524877,
                   0.491156064712792, 0.10953869409072106, 0.6512592984651386, 0.3496303616197618}) {
    request.add_key(x);
  }
  for (int64_t m : {0, 1, 7, 100, 5000}) request.add_norm_positions(m);
  request.set_content(content);
  request.set_seed(31);
  return measurement;
}

struct Figures {
  v1::GeometryFigures figures;
  std::vector<double> scores;
  double S(int64_t m, int64_t n) const { return scores[static_cast<size_t>(m * 16 + n)]; }
};

Figures MeasureDemo(const v1::Measurement& request) {
  ListRecorder recorder;
  const auto outcome = Measure(request, nullptr, {}, recorder);
  EXPECT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->fed_ids_digest, "");
  const std::string& file = recorder.artifacts.at(0).bytes;
  EXPECT_EQ(recorder.artifacts.at(0).name, "scores.safetensors");
  const auto ranges = formats::ParseSafetensorsHeader(file, "scores");
  EXPECT_EQ(ranges->at(0).name, "S");
  EXPECT_EQ(ranges->at(0).dtype, "F64");
  EXPECT_THAT(ranges->at(0).shape, testing::ElementsAre(16, 16));
  std::vector<double> scores(256);
  std::memcpy(scores.data(), file.data() + ranges->at(0).begin, 256 * sizeof(double));
  return {recorder.readings.at(0).geometry(), scores};
}

TEST(RopeGeometry, GivesTheDemosGoldenValues) {
  const Figures demo = MeasureDemo(Demo(v1::Content::REPEATED));
  EXPECT_NEAR(demo.figures.query_norm(), 3.530342, 5e-7);
  ASSERT_EQ(demo.figures.norms_size(), 5);
  for (double norm : demo.figures.norms()) EXPECT_NEAR(norm, 3.530342, 5e-7);
  EXPECT_NEAR(demo.S(0, 0), 0.303207, 5e-7);
  EXPECT_NEAR(demo.S(0, 1), -0.284970, 5e-7);
  EXPECT_NEAR(demo.S(0, 2), -0.625391, 5e-7);
  EXPECT_NEAR(demo.S(0, 3), -0.388297, 5e-7);
  EXPECT_NEAR(demo.S(5, 0), -0.537215, 5e-7);
  EXPECT_LT(demo.figures.largest_diagonal_std(), 1e-15);
  EXPECT_LT(demo.figures.largest_identity_error(), 1e-14);
}

TEST(RopeGeometry, ReadsTheHandsOfTheClock) {
  const v1::GeometryFigures figures = MeasureDemo(Demo(v1::Content::REPEATED)).figures;
  ASSERT_EQ(figures.hands_size(), 4);
  EXPECT_EQ(figures.hands(0).pair(), 1);
  EXPECT_EQ(figures.hands(0).nearest_lag(), 6);
  EXPECT_NEAR(figures.hands(0).nearest_distance(), 0.2832, 5e-5);
  EXPECT_THAT(figures.hands(0).aliases(), testing::ElementsAre(6, 7, 12, 13));
  for (int hand = 1; hand < 4; ++hand) {
    EXPECT_EQ(figures.hands(hand).nearest_lag(), 2);
    EXPECT_EQ(figures.hands(hand).aliases_size(), 0);
  }
}

TEST(RopeGeometry, DrawsContentPerEntryAsTheDemosCode) {
  const Figures demo = MeasureDemo(Demo(v1::Content::PER_ENTRY));
  EXPECT_NEAR(demo.S(0, 0), -2.515558919659485, 1e-13);
  EXPECT_NEAR(demo.S(3, 5), 0.23638914125223978, 1e-13);
  EXPECT_NEAR(demo.S(15, 15), -1.7958357676249272, 1e-13);
  EXPECT_NEAR(demo.figures.largest_diagonal_std(), 1.514483359047385, 1e-13);
  EXPECT_TRUE(std::isnan(demo.figures.largest_identity_error()));
}

TEST(RopeGeometry, DrawsContentPerPosition) {
  const Figures demo = MeasureDemo(Demo(v1::Content::PER_POSITION));
  EXPECT_NEAR(demo.S(3, 5), 0.0698342321563005, 1e-13);
  EXPECT_NEAR(demo.S(15, 2), -1.7595786444921022, 1e-13);
  EXPECT_NEAR(demo.figures.largest_diagonal_std(), 2.1229464640444733, 1e-13);
}

// z = normals(numpy.random.Philox(key=[31, 3], counter=[0, 0, 1, 0]), 16); q = z[:8], k = z[8:]
TEST(RopeGeometry, DrawsQueryAndKeyWhereNoneAreGiven) {
  v1::Measurement request = Demo(v1::Content::REPEATED);
  request.mutable_rope_geometry()->clear_query();
  request.mutable_rope_geometry()->clear_key();
  const Figures demo = MeasureDemo(request);
  EXPECT_NEAR(demo.figures.query_norm(), 2.8931046548686954, 1e-13);
  EXPECT_NEAR(demo.S(0, 0), 2.4944585480637294, 1e-13);
  EXPECT_NEAR(demo.S(5, 0), 0.2597264960394927, 1e-13);
  EXPECT_LT(demo.figures.largest_identity_error(), 1e-14);
}

TEST(RopeGeometry, RotateHalfIsTheSameHeadWithItsDimensionsReordered) {
  const v1::Measurement interleaved = Demo(v1::Content::REPEATED);
  v1::Measurement half = interleaved;
  half.mutable_rope_geometry()->set_layout(v1::PairLayout::ROTATE_HALF);
  for (int p = 0; p < 4; ++p) {
    for (int part = 0; part < 2; ++part) {
      half.mutable_rope_geometry()->set_query(p + 4 * part, interleaved.rope_geometry().query(2 * p + part));
      half.mutable_rope_geometry()->set_key(p + 4 * part, interleaved.rope_geometry().key(2 * p + part));
    }
  }
  const Figures a = MeasureDemo(interleaved), b = MeasureDemo(half);
  for (int64_t m = 0; m < 16; ++m) {
    for (int64_t n = 0; n < 16; ++n) EXPECT_NEAR(a.S(m, n), b.S(m, n), 1e-14);
  }
}

TEST(RopeGeometry, RefusesVectorsOfAnotherLengthAndNumbersThatAreNone) {
  const auto refused = [](auto change, const char* word) {
    v1::Measurement request = Demo(v1::Content::REPEATED);
    change(*request.mutable_rope_geometry());
    ListRecorder recorder;
    const auto status = Measure(request, nullptr, {}, recorder).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(word));
  };
  refused([](auto& r) { r.mutable_query()->RemoveLast(); }, "query has 7");
  refused([](auto& r) { r.add_theta(1); }, "ladder");
  refused([](auto& r) { r.set_key(0, std::nan("")); }, "finite");
  refused([](auto& r) { r.set_head_dim(7); }, "even");
  refused([](auto& r) { r.set_positions(0); }, "positions is 0");
}

}  // namespace
}  // namespace ropelab::measure
