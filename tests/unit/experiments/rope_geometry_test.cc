#include "server/experiments/rope_geometry.h"

#include <limits>

#include "common/service/canonical_hash.h"
#include "fakes.h"

namespace ropelab::experiments {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string Geometry(const std::string& fields) {
  return "name: 'x' rope_geometry { " + fields + " }";
}

TEST(RopeGeometryResolve, FillsTheDemosDefaults) {
  const v1::ExperimentSpec spec = Resolved(Geometry("")).resolved;
  EXPECT_EQ(spec.rope_geometry().head_dim(), 8);
  EXPECT_EQ(spec.rope_geometry().base(), 10000);
  EXPECT_EQ(spec.rope_geometry().positions(), 16);
  EXPECT_EQ(spec.rope_geometry().layout(), v1::PairLayout::INTERLEAVED);
  EXPECT_EQ(spec.rope_geometry().content(), v1::Content::REPEATED);
  EXPECT_THAT(spec.rope_geometry().norm_positions(), ElementsAre(0, 1, 7, 100, 5000));
  EXPECT_FALSE(spec.has_dtype());
}

TEST(RopeGeometryResolve, RefusesWhatHasNoGeometry) {
  const std::pair<std::string, const char*> refusals[] = {
      {Geometry("head_dim: 7"), "rope_geometry.head_dim: must be an even number"},
      {Geometry("head_dim: 0"), "rope_geometry.head_dim: must be an even number"},
      {Geometry("base: 1"), "rope_geometry.base: must be above 1"},
      {Geometry("positions: 1"), "rope_geometry.positions: must be 2 to 4096"},
      {Geometry("positions: 4097"), "rope_geometry.positions: must be 2 to 4096"},
      {Geometry("head_dim: 2 query: [1, 2]"), "rope_geometry.key: give exactly head_dim = 2 values"},
      {Geometry("head_dim: 2 query: [1, 2, 3] key: [1, 2]"),
       "rope_geometry.query: give exactly head_dim = 2 values"},
      {Geometry("norm_positions: [0, -1]"), "rope_geometry.norm_positions[1]: a position is 0 to"},
      {Geometry("norm_positions: [3, 3]"), "rope_geometry.norm_positions: stands there twice"},
      {"seeds: [1, 2] " + Geometry(""), "seeds: rope_geometry takes one seed"},
      {"model: 'toy' " + Geometry(""), "model: rope_geometry runs without a model"},
      {"dtype: FLOAT32 " + Geometry(""), "dtype: rope_geometry needs no model"},
  };
  for (const auto& [spec, problem] : refusals) {
    EXPECT_THAT(ProblemsOf(spec), ElementsAre(HasSubstr(problem))) << spec;
  }
}

TEST(RopeGeometryPlan, TheLadderFallsByTheBase) {
  const std::vector<double> theta = FrequencyLadder(8, 10000);  // 10000^(-l/4): by hand
  ASSERT_EQ(theta.size(), 4u);
  EXPECT_EQ(theta[0], 1.0);
  EXPECT_NEAR(theta[1], 0.1, 1e-16);
  EXPECT_NEAR(theta[2], 0.01, 1e-17);
  EXPECT_NEAR(theta[3], 0.001, 1e-18);
}

TEST(RopeGeometryPlan, IsOneTaskWithoutAModel) {
  FakeReadings none;
  const StagePlan plan = PlanOf(Resolved(Geometry("head_dim: 4")), ContextOf({}), 1, none);
  ASSERT_EQ(plan.size(), 1u);
  EXPECT_EQ(plan[0].model, "");
  EXPECT_FALSE(plan[0].measurement.has_model());
  const v1::RopeGeometryFigures& figures = plan[0].measurement.rope_geometry();
  EXPECT_THAT(figures.theta(), ElementsAre(1.0, 0.01));
  EXPECT_THAT(figures.query(), IsEmpty());
  EXPECT_EQ(figures.seed(), 42u);
}

TEST(RopeGeometryPlan, ASeedThatDrawsNothingIsNoPartOfTheTask) {
  FakeReadings none;
  const auto key = [&](const std::string& seed) {
    return CanonicalHash(
        PlanOf(Resolved(seed + Geometry("head_dim: 2 query: [1, 2] key: [3, 4]")), ContextOf({}), 1, none)[0]
            .measurement);
  };
  EXPECT_EQ(key("seeds: 1 "), key("seeds: 2 "));
}

TEST(RopeGeometryPlan, VaryingContentIsDrawnFromTheSeedBesideGivenVectors) {
  FakeReadings none;
  const StagePlan plan = PlanOf(
      Resolved(Geometry("head_dim: 2 query: [1, 2] key: [3, 4] content: PER_ENTRY")), ContextOf({}), 1, none);
  EXPECT_EQ(plan.at(0).measurement.rope_geometry().seed(), 42u);
  EXPECT_THAT(plan.at(0).measurement.rope_geometry().query(), ElementsAre(1, 2));
}

// The hash is that of the message written out by hand, by another implementation of the canonical walk.
TEST(RopeGeometryResolve, AResolvedSpecKeepsItsHash) {
  EXPECT_EQ(
      Resolved("name: 'hands of a clock' rope_geometry { head_dim: 4 base: 100 positions: 12 layout: "
               "ROTATE_HALF query: "
               "[0.5, -1, 0.25, 2] key: [1, 0, -0.5, 0.125] norm_positions: [0, 3, 9] content: REPEATED }")
          .spec_hash,
      "a5ff29b8ea6a98a203f7ccc9cac04e0bb8f0279293ba9241cfba8f041d3835a0");
}

class RopeGeometryReduce : public testing::Test {
 protected:
  absl::StatusOr<Results> Reduce(const std::string& fields) {
    const ResolvedExperiment experiment = Resolved(Geometry(fields));
    FakeReadings readings;
    readings.Add(1, PlanOf(experiment, ContextOf({}), 1, readings)[0].measurement, {reading_});
    return FindKind("rope_geometry")->experiment->Reduce(experiment.resolved, ContextOf({}), readings);
  }
  RopeGeometryReduce() {
    reading_ = FromText<v1::Reading>(
        "geometry { theta: [1, 0.1] norms: [2.5, 2.5] query_norm: 2.5 largest_diagonal_std: 1e-16 "
        "largest_identity_error: 2e-16 "
        "hands { pair: 1 theta: 1 nearest_lag: 6 nearest_distance: 0.2831853071795862 } "
        "hands { pair: 2 theta: 0.1 nearest_lag: 63 nearest_distance: 0.016814692820414 aliases: [62, 63] } "
        "scores_artifact: 'scores.safetensors' } "
        "artifacts { name: 'scores.safetensors' sha256: 'abc' bytes: 2100 }");
  }
  v1::Reading reading_;
};

TEST_F(RopeGeometryReduce, ShowsTheLadderNormsAndHands) {
  const auto results =
      Reduce("head_dim: 4 base: 100 norm_positions: [0, 7] query: [1, 1, 1, 1] key: [1, 1, 1, 1]");
  ASSERT_TRUE(results.ok()) << results.status();
  const Table& frequencies = TableNamed(*results, "frequencies");
  EXPECT_THAT(ColumnNamed(frequencies, "pair").integers(), ElementsAre(1, 2));
  EXPECT_THAT(ColumnNamed(frequencies, "theta").reals(), ElementsAre(1, 0.1));
  EXPECT_TRUE(NullAt(ColumnNamed(frequencies, "layer"), 0));
  EXPECT_TRUE(NullAt(ColumnNamed(frequencies, "active"), 1));
  EXPECT_THAT(ColumnNamed(frequencies, "model").texts(), ElementsAre("", ""));
  const Table& series = TableNamed(*results, "series");
  EXPECT_THAT(ColumnNamed(series, "name").texts(),
              ElementsAre("hand_2_alias", "hand_2_alias", "norm", "norm"));
  EXPECT_THAT(ColumnNamed(series, "x").reals(), ElementsAre(62, 63, 0, 7));
  EXPECT_NEAR(ColumnNamed(series, "y").reals(1), 0.01681469282041359,
              1e-15);  // 6.3 against a turn, by python's math
  EXPECT_EQ(ColumnNamed(series, "y").reals(2), 2.5);
  const Table& statistics = TableNamed(*results, "statistics");
  EXPECT_THAT(ColumnNamed(statistics, "name").texts(),
              ElementsAre("hand_1_aliases", "hand_1_nearest_distance", "hand_1_nearest_lag", "hand_2_aliases",
                          "hand_2_nearest_distance", "hand_2_nearest_lag", "largest_diagonal_std",
                          "largest_identity_error", "query_norm"));
  EXPECT_THAT(ColumnNamed(statistics, "value").reals(),
              ElementsAre(0, 0.2831853071795862, 6, 2, 0.016814692820414, 63, 1e-16, 2e-16, 2.5));
  EXPECT_TRUE(NullAt(ColumnNamed(statistics, "seed"), 0)) << "no seed drew these vectors";
  ASSERT_EQ(results->artifacts.size(), 1u);
  EXPECT_EQ(results->artifacts[0].name(), "scores.safetensors");
  EXPECT_EQ(results->artifacts[0].bytes(), 2100);
}

TEST_F(RopeGeometryReduce, AnIdentityThatDoesNotHoldIsUndefined) {
  reading_.mutable_geometry()->set_largest_identity_error(std::numeric_limits<double>::quiet_NaN());
  const auto results = Reduce("head_dim: 4 base: 100 norm_positions: [0, 7] content: PER_ENTRY");
  ASSERT_TRUE(results.ok()) << results.status();
  const Table& statistics = TableNamed(*results, "statistics");
  const int row = 7;
  ASSERT_EQ(ColumnNamed(statistics, "name").texts(row), "largest_identity_error");
  EXPECT_TRUE(NullAt(ColumnNamed(statistics, "value"), row));
  EXPECT_THAT(ColumnNamed(statistics, "undefined_because").texts(row), HasSubstr("one repeated token"));
  EXPECT_EQ(ColumnNamed(statistics, "seed").integers(row), 42);
}

TEST_F(RopeGeometryReduce, RefusesFiguresOfAnotherShape) {
  EXPECT_EQ(Reduce("norm_positions: [0, 7, 8]").status().code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace ropelab::experiments
