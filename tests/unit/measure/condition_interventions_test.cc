// The reader of a task's interventions, kind by kind.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

#include "ropelab/v1/measurement.pb.h"
#include "tests/unit/engine/made_model.h"
#include "worker/measure/condition_edits.h"

namespace ropelab::measure {
namespace {

using engine::EditKind;
using engine::EditStage;
using engine::EditTarget;
using engine::HeadEdit;
using engine::HeadEdits;
using engine::SmallConfig;  // 2 layers, 4 heads on 2 KV heads, head_dim 12
using testing::HasSubstr;

constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();

absl::StatusOr<ReadEdits> Read(const std::string& edits, std::optional<int64_t> question = std::nullopt) {
  v1::Condition condition;
  if (!google::protobuf::TextFormat::ParseFromString(edits, &condition)) throw std::runtime_error(edits);
  return ReadInterventions(condition.interventions(), "edits", SmallConfig(), question);
}
ReadEdits MustRead(const std::string& edits, std::optional<int64_t> question = std::nullopt) {
  const auto read = Read(edits, question);
  if (!read.ok()) throw std::runtime_error(read.status().ToString());
  return *read;
}

const std::string kHeads = "heads { list { head { layer: 1 head: 3 } head { layer: 0 head: 2 } } } ";

TEST(ReadInterventions, EveryHeadOfAnEditIsAnEdit) {
  EXPECT_EQ(MustRead("interventions { zero_head { " + kHeads + "positions: ALL } }").heads,
            (HeadEdits{{EditKind::kZeroHead, 1, 3, {}}, {EditKind::kZeroHead, 0, 2, {}}}));
  EXPECT_TRUE(MustRead("").heads.empty());
}

TEST(ReadInterventions, DimsAreStorageIndicesAndPairsCountFromOne) {
  const ReadEdits read = MustRead(
      "interventions { zero_dims { heads { list { head { layer: 1 head: 0 } } } dims: [11, 0] target: KEY "
      "stage: PROJECTION positions: ALL } } "
      "interventions { unrotate { heads { list { head { layer: 0 head: 1 } } } pairs: [6, 1] positions: ALL "
      "} } "
      "interventions { scale_dims { heads { list { head { layer: 1 head: 0 } } } dims: 4 target: BOTH "
      "stage: POST_ROPE factor: -0.5 positions: ALL } }");
  const HeadEdits expected = {
      {EditKind::kScaleDims, 1, 0, {0, 11}, 0, EditTarget::kKey, EditStage::kProjection, 0, kEnd},
      {EditKind::kUnrotate, 0, 1, {0, 5}, 0, EditTarget::kQuery, EditStage::kPreRope, 0, kEnd},
      {EditKind::kScaleDims, 1, 0, {4}, -0.5, EditTarget::kBoth, EditStage::kPostRope, 0, kEnd}};
  EXPECT_EQ(read.heads, expected);
  EXPECT_EQ(FirstEditedLayer(read, SmallConfig()), 0);
}

TEST(ReadInterventions, PositionsAreAllTheQuestionOnOrARange) {
  const auto reach = [](const std::string& where, std::optional<int64_t> question = std::nullopt) {
    const HeadEdit edit =
        MustRead("interventions { zero_head { " + kHeads + where + " } }", question).heads[0];
    return std::pair(edit.first_position, edit.last_position);
  };
  EXPECT_EQ(reach("positions: ALL", 70), std::pair(int64_t{0}, kEnd));
  EXPECT_EQ(reach("positions: QUESTION", 70), std::pair(int64_t{70}, kEnd));
  EXPECT_EQ(reach("position_range { first: 3 last: 3 }"), std::pair(int64_t{3}, int64_t{3}));
}

TEST(ReadInterventions, LowRanksStandBesideTheHeadsEdits) {
  const ReadEdits read = MustRead(
      "interventions { low_rank { " + kHeads +
      "rank: 2 matrices: KEY } } "
      "interventions { low_rank { heads { list { head { layer: 0 head: 0 } } } rank: 12 matrices: QUERY } }");
  EXPECT_TRUE(read.heads.empty());
  EXPECT_EQ(read.ranks,
            (engine::LowRanks{{{0, engine::Projection::kKey, 1}, 2}, {{1, engine::Projection::kKey, 1}, 2}}));
  EXPECT_EQ(FirstEditedLayer(read, SmallConfig()), 0);
  EXPECT_EQ(FirstEditedLayer(ReadEdits(), SmallConfig()), 2);
}

TEST(ReadInterventions, RefusesWhatIsMissingUnknownOrNotInTheModel) {
  const auto refusal = [](const std::string& edit) {
    const absl::Status status =
        Read("interventions { zero_head { " + kHeads + "positions: ALL } } interventions { " + edit + " }")
            .status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << edit;
    EXPECT_THAT(std::string(status.message()), testing::StartsWith("edits[1]"));
    return std::string(status.message());
  };
  const std::string dims = kHeads + "target: QUERY stage: PRE_ROPE positions: ALL ";
  EXPECT_THAT(refusal(""), HasSubstr("not known here"));
  EXPECT_THAT(refusal("zero_head { positions: ALL }"), HasSubstr("zero_head.heads lists no heads"));
  EXPECT_THAT(refusal("zero_head { heads { list { head { layer: 2 head: 0 } } } positions: ALL }"),
              HasSubstr("zero_head.heads.list.head[0] is L2H0"));
  EXPECT_THAT(refusal("zero_head { " + kHeads + "}"), HasSubstr("zero_head.positions is 0; say ALL"));
  EXPECT_THAT(refusal("zero_head { " + kHeads + "positions: QUESTION }"), HasSubstr("only needle prompts"));
  EXPECT_THAT(refusal("zero_head { " + kHeads + "positions: ALL position_range { first: 1 last: 2 } }"),
              HasSubstr("both positions and position_range"));
  EXPECT_THAT(refusal("zero_head { " + kHeads + "position_range { first: 3 last: 2 } }"),
              HasSubstr("position_range is 3 to 2"));
  EXPECT_THAT(refusal("zero_head { " + kHeads + "position_range { first: 3 } }"),
              HasSubstr("position_range"));
  EXPECT_THAT(refusal("zero_dims { " + dims + "dims: 12 }"),
              HasSubstr("zero_dims.dims holds 12; a head has 0 to 11"));
  EXPECT_THAT(refusal("zero_dims { " + dims + "dims: [3, 3] }"), HasSubstr("holds 3 twice"));
  EXPECT_THAT(refusal("zero_dims { " + kHeads + "dims: 1 stage: PRE_ROPE positions: ALL }"),
              HasSubstr("zero_dims.target is 0; say QUERY"));
  EXPECT_THAT(refusal("zero_dims { " + kHeads + "dims: 1 target: KEY positions: ALL }"),
              HasSubstr("zero_dims.stage is 0; say PRE_ROPE"));
  EXPECT_THAT(refusal("unrotate { " + kHeads + "pairs: 0 positions: ALL }"),
              HasSubstr("unrotate.pairs holds 0; a head has 1 to 6"));
  EXPECT_THAT(refusal("unrotate { " + kHeads + "pairs: 7 positions: ALL }"), HasSubstr("pairs holds 7"));
  EXPECT_THAT(refusal("scale_dims { " + dims + "dims: 1 }"), HasSubstr("scale_dims.factor is not given"));
  EXPECT_THAT(refusal("scale_dims { " + dims + "dims: 1 factor: 1e300 }"), HasSubstr("factor is 1e+300"));
  EXPECT_THAT(refusal("low_rank { " + kHeads + "matrices: KEY }"), HasSubstr("low_rank.rank is not given"));
}

}  // namespace
}  // namespace ropelab::measure
