#include "worker/measure/condition_edits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "common/status_macros.h"
#include "tests/unit/engine/made_model.h"
#include "tests/unit/measure/condition_request.h"

namespace ropelab::measure {
namespace {

using engine::LowRanks;
using engine::SmallConfig;
using testing::AllOf;
using testing::HasSubstr;

constexpr auto kQueries = engine::Projection::kQuery;
constexpr auto kKeys = engine::Projection::kKey;

absl::StatusOr<LowRanks> Read(const std::vector<v1::Intervention>& edits) {
  const v1::Condition condition = ConditionOf(edits);
  // 2 layers, 4 heads on 2 KV heads.
  ROPELAB_ASSIGN_OR_RETURN(
      ReadEdits read, ReadInterventions(condition.interventions(), "edits", SmallConfig(), std::nullopt));
  EXPECT_TRUE(read.heads.empty());
  return read.ranks;
}

LowRanks MustRead(const std::vector<v1::Intervention>& edits) {
  const auto ranks = Read(edits);
  EXPECT_TRUE(ranks.ok()) << ranks.status();
  return ranks.value_or(LowRanks());
}

TEST(ReadInterventionsLowRank, AKeyEditHitsAKvHeadOnceHoweverManyOfItsHeadsAreNamed) {
  EXPECT_EQ(MustRead({LowRank({{0, 2}, {0, 3}, {1, 1}}, 5, {v1::Matrix::KEY, v1::Matrix::QUERY})}),
            (LowRanks{{{0, kQueries, 2}, 5},
                      {{0, kQueries, 3}, 5},
                      {{0, kKeys, 1}, 5},
                      {{1, kQueries, 1}, 5},
                      {{1, kKeys, 0}, 5}}));
}

TEST(ReadInterventionsLowRank, OfSeveralEditsOfOneMatrixTheLowestRankCounts) {
  EXPECT_EQ(MustRead({LowRank({{0, 0}}, 5, {v1::Matrix::KEY}), LowRank({{0, 1}}, 3, {v1::Matrix::KEY}),
                      LowRank({{0, 0}, {0, 0}}, 4, {v1::Matrix::KEY})}),
            (LowRanks{{{0, kKeys, 0}, 3}}));
}

TEST(ReadInterventionsLowRank, LeavesOutWhatChangesNothing) {
  EXPECT_TRUE(MustRead({}).empty());
  EXPECT_TRUE(MustRead({LowRank({{0, 0}}, 12, {v1::Matrix::KEY})}).empty());
  EXPECT_TRUE(MustRead({LowRank({{0, 0}}, 999, {v1::Matrix::QUERY})}).empty());
  EXPECT_EQ(MustRead({LowRank({{0, 0}}, 11, {v1::Matrix::QUERY})}).size(), 1u);
}

TEST(ReadInterventionsLowRank, RefusesWhatIsWrongWithItsPlaceAndWhatWouldBeRight) {
  const auto refusal = [](const v1::Intervention& edit) {
    const absl::Status status = Read({LowRank({{0, 0}}, 1, {v1::Matrix::KEY}), edit}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), testing::StartsWith("edits[1]"));
    return std::string(status.message());
  };
  constexpr auto kQ = v1::Matrix::QUERY;
  EXPECT_THAT(refusal(LowRank({{0, 0}}, 0, {kQ})), HasSubstr("low_rank.rank is 0; a rank is 1 or more"));
  EXPECT_THAT(refusal(LowRank({{0, 0}}, -3, {kQ})), HasSubstr("rank is -3"));
  v1::Intervention without_rank = LowRank({{0, 0}}, 1, {kQ});
  without_rank.mutable_low_rank()->clear_rank();
  EXPECT_THAT(refusal(without_rank), HasSubstr("rank is not given"));
  EXPECT_THAT(refusal(LowRank({{0, 0}}, 1, {})), HasSubstr("matrices is empty; name QUERY, KEY or both"));
  EXPECT_THAT(refusal(LowRank({{0, 0}}, 1, {kQ, kQ})), HasSubstr("holds QUERY twice"));
  EXPECT_THAT(refusal(LowRank({{0, 0}}, 1, {v1::Matrix::UNSPECIFIED})), HasSubstr("matrices holds 0"));
  EXPECT_THAT(refusal(LowRank({{0, 0}}, 1, {static_cast<v1::Matrix::Value>(9)})), HasSubstr("holds 9"));
  EXPECT_THAT(refusal(LowRank({}, 1, {kQ})), HasSubstr("heads lists no heads"));
  v1::Intervention found = LowRank({}, 1, {kQ});
  found.mutable_low_rank()->mutable_heads()->mutable_slash_dominant()->set_experiment("detect");
  EXPECT_THAT(refusal(found), HasSubstr("heads lists no heads"));
  EXPECT_THAT(refusal(LowRank({{0, 1}, {2, 0}}, 1, {kQ})),
              AllOf(HasSubstr("head[1] is L2H0"), HasSubstr("2 layers of 4 heads")));
  EXPECT_THAT(refusal(LowRank({{0, 4}}, 1, {kQ})), HasSubstr("L0H4"));
  EXPECT_THAT(refusal(LowRank({{-1, 0}}, 1, {kQ})), HasSubstr("L-1H0"));
  v1::Intervention half = LowRank({{0, 0}}, 1, {kQ});
  half.mutable_low_rank()->mutable_heads()->mutable_list()->mutable_head(0)->clear_head();
  EXPECT_THAT(refusal(half), HasSubstr("head[0] names no head"));
}

}  // namespace
}  // namespace ropelab::measure
