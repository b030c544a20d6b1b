#include "server/experiments/head_set.h"

#include "fakes.h"
#include "server/experiments/table_builder.h"

namespace ropelab::experiments {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Found {
  const char* model;
  int64_t seed, layer, head;
  std::optional<int64_t> offset;
  double score;
  bool dominant;
};

Context Detected(const std::vector<Found>& rows) {
  TableBuilder table("slash_heads", {{"model", v1::Column::TEXT, true},
                                     {"seed", v1::Column::INTEGER, true},
                                     {"layer", v1::Column::INTEGER, true},
                                     {"head", v1::Column::INTEGER, true},
                                     {"best_offset", v1::Column::INTEGER, false},
                                     {"score", v1::Column::REAL, false},
                                     {"dominant", v1::Column::BOOLEAN, false}});
  for (const Found& row : rows) {
    table.Text(row.model).Integer(row.seed).Integer(row.layer).Integer(row.head).Integer(row.offset);
    table.Real(row.score).Boolean(row.dominant);
  }
  Context context = ContextOf({ToyModel()});
  context.earlier.push_back({"detect", "digest", {table.Finish(true).slice}});
  return context;
}

const std::vector<Found> kRows = {
    {"toy", 42, 0, 1, 3, 0.5, true},           {"toy", 42, 0, 2, 0, 0.09, false},
    {"toy", 42, 1, 0, 2, 0.7, true},           {"toy", 42, 1, 3, 1, 0.5, true},
    {"toy", 42, 1, 2, std::nullopt, 0, false}, {"toy", 7, 1, 1, 4, 0.9, true},
    {"wide", 42, 0, 0, 4, 0.9, true}};

std::vector<NamedHead> Heads(const std::string& set) {
  const auto heads = HeadsOf(FromText<v1::HeadSet>(set), Detected(kRows), "toy", 42);
  EXPECT_TRUE(heads.ok()) << heads.status();
  return *heads;
}

TEST(HeadSet, DominantHeadsStandAtTheirBestOffsetsInOrder) {
  EXPECT_THAT(Heads("slash_dominant { experiment: 'detect' }"),
              ElementsAre(NamedHead{0, 1, 3}, NamedHead{1, 0, 2}, NamedHead{1, 3, 1}));
}

TEST(HeadSet, AThresholdReplacesTheDetectionsOwn) {
  EXPECT_THAT(Heads("slash_dominant { experiment: 'detect' threshold: 0.6 }"),
              ElementsAre(NamedHead{1, 0, 2}));
  EXPECT_EQ(Heads("slash_dominant { experiment: 'detect' threshold: 0.09 }").size(), 4u);
  EXPECT_THAT(Heads("slash_dominant { experiment: 'detect' threshold: 1 }"), IsEmpty());
}

TEST(HeadSet, TheBestAreByScoreAndOfATieTheFirst) {
  EXPECT_THAT(Heads("slash_dominant { experiment: 'detect' top: 2 }"),
              ElementsAre(NamedHead{0, 1, 3}, NamedHead{1, 0, 2}));
  EXPECT_EQ(Heads("slash_dominant { experiment: 'detect' top: 9 }").size(), 3u);
  EXPECT_EQ(Heads("slash_dominant { experiment: 'detect' top_share: 0.34 }").size(), 2u);
  EXPECT_EQ(Heads("slash_dominant { experiment: 'detect' top_share: 1e-12 }").size(), 1u);
}

TEST(HeadSet, AListIsSorted) {
  EXPECT_THAT(Heads("list { head { layer: 1 head: 0 offset: 5 } head { layer: 0 head: 2 } }"),
              ElementsAre(NamedHead{0, 2, std::nullopt}, NamedHead{1, 0, 5}));
}

TEST(HeadSet, WithoutTheEarlierExperimentThereIsNoAnswer) {
  const auto set = FromText<v1::HeadSet>("slash_dominant { experiment: 'other' }");
  EXPECT_EQ(HeadsOf(set, Detected(kRows), "toy", 42).status().code(), absl::StatusCode::kInternal);
}

constexpr char kPrompts[] = "prompts { uniform_tokens { count: 8 tokens: 64 } } ";

std::string Mapping(const std::string& name, const std::string& heads) {
  return "experiments { name: '" + name + "' slash_detection { " + kPrompts + " maps { heads { " + heads +
         " } } } } ";
}
std::string Detecting(const std::string& name, const std::string& common = "") {
  return "experiments { name: '" + name + "' " + common + " slash_detection { " + kPrompts + " } } ";
}
std::vector<std::string> StudyProblems(const std::string& experiments) {
  return ProblemsOf(StudyOf("name: 's' model: 'toy' " + experiments));
}

TEST(References, AnEarlierOrLaterDetectionOfTheStudyIsFine) {
  const std::string maps = Mapping("maps", "slash_dominant { experiment: 'detect' }");
  EXPECT_THAT(StudyProblems(Detecting("detect") + maps), IsEmpty());
  EXPECT_THAT(StudyProblems(maps + Detecting("detect")), IsEmpty());
}

TEST(References, WhatCannotGiveHeadsIsRefusedByItsField) {
  const std::string field = "experiments.maps.slash_detection.maps.heads.slash_dominant.experiment: ";
  const std::string maps = Mapping("maps", "slash_dominant { experiment: 'detect' }");
  EXPECT_THAT(StudyProblems(Detecting("other") + maps),
              ElementsAre(field + "is no other experiment of this study; it has other"));
  EXPECT_THAT(StudyProblems(Detecting("detect", "seeds: 7") + maps),
              ElementsAre(field + "does not run seed 42; give both experiments the same seeds"));
  EXPECT_THAT(StudyProblems("experiments { name: 'detect' rope_geometry { } } " + maps),
              ElementsAre(HasSubstr("is a rope_geometry, which finds no slash-dominant heads")));
  EXPECT_THAT(StudyProblems(Mapping("maps", "slash_dominant { experiment: 'maps' }")),
              ElementsAre(HasSubstr("is no experiment of this submission")));
  EXPECT_THAT(StudyProblems(Detecting("detect") + Mapping("maps", "slash_dominant { experiment: 'maps' }")),
              ElementsAre(HasSubstr("takes its heads from this experiment in turn")));
  EXPECT_THAT(StudyProblems(Mapping("a", "slash_dominant { experiment: 'b' }") +
                            Mapping("b", "slash_dominant { experiment: 'a' }")),
              ElementsAre(HasSubstr("in turn"), HasSubstr("in turn")));
}

TEST(References, ALoneExperimentHasNoneToTakeFrom) {
  EXPECT_THAT(ProblemsOf(std::string("name: 'x' model: 'toy' slash_detection { ") + kPrompts +
                         "maps { heads { slash_dominant { experiment: 'detect' } } } }"),
              ElementsAre(HasSubstr("submit both as one study")));
}

TEST(Maps, AreRefusedWhereTheyCannotBeMade) {
  const auto problems = [](const std::string& maps) {
    return ProblemsOf(std::string("name: 'x' model: 'toy' slash_detection { ") + kPrompts + "maps { " + maps +
                      " } }");
  };
  EXPECT_THAT(problems("heads { list { head { layer: 1 head: 3 } } } size: 16"), IsEmpty());
  EXPECT_THAT(problems("size: 16"), ElementsAre(HasSubstr("slash_detection.maps.heads: name the heads")));
  EXPECT_THAT(problems("heads { list { head { layer: 2 head: 0 } } }"),
              ElementsAre(HasSubstr("maps.heads.list.head[0]: model toy has layers 0 to 1 of heads 0 to 3")));
  EXPECT_THAT(problems("heads { list { head { layer: 1 head: 0 } head { layer: 1 head: 0 } } }"),
              ElementsAre(HasSubstr("named twice")));
  EXPECT_THAT(problems("heads { list { head { layer: 1 } } }"), ElementsAre(HasSubstr("a layer and a head")));
  EXPECT_THAT(problems("heads { list { head { layer: 1 head: 0 } } } size: 0"),
              ElementsAre(HasSubstr("slash_detection.maps.size: a map has 1 to 4096")));
  EXPECT_THAT(
      ProblemsOf("name: 'x' model: 'toy' slash_detection { prompts { token_ids { prompts { ids: "
                 "[1,2,3,4,5,6,7,8,9,10] } prompts { ids: [1,2,3,4,5,6,7,8,9] } } } maps { heads { list { "
                 "head { layer: 1 head: 0 } } } } }"),
      ElementsAre(HasSubstr("slash_detection.maps: a mean map needs prompts of one length")));
}

TEST(Maps, ComeWithTheFirstRangeAlone) {
  const ResolvedExperiment experiment = Resolved(
      "name: 'x' model: 'toy' slash_detection { prompts { uniform_tokens { count: 8 tokens: 120 } } regime: "
      "LARGE rows: COMMON maps { heads { list { head { layer: 1 head: 3 } } } } }");
  FakeReadings none;
  const StagePlan plan = PlanOf(experiment, ContextOf({ToyModel()}), 1, none);
  ASSERT_EQ(plan.size(), 2u);
  const v1::SlashProfile& mapped = plan[0].measurement.slash_profile();
  ASSERT_EQ(mapped.heads_size(), 1);
  EXPECT_EQ(mapped.heads(0).layer(), 1);
  EXPECT_EQ(mapped.map_size(), 256);
  EXPECT_EQ(plan[1].measurement.slash_profile().heads_size(), 0);
}

}  // namespace
}  // namespace ropelab::experiments
