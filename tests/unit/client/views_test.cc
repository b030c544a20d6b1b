#include "client/corpora_view.h"
#include "client/experiment_view.h"
#include "client/human.h"
#include "client/inventory_view.h"
#include "client/json_view.h"
#include "client/text_table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ropelab::client {
namespace {

using testing::HasSubstr;

constexpr int64_t kNow = 1769860800000000;  // 2026-01-31 12:00:00 UTC

TEST(Human, WritesBytesTimesAndCounts) {
  EXPECT_EQ(HumanBytes(1023), "1023 B");
  EXPECT_EQ(HumanBytes(1536), "1.5 KiB");
  EXPECT_EQ(HumanBytes(int64_t{139} << 30), "139 GiB");
  EXPECT_EQ(HumanSeconds(0.42), "0.4s");
  EXPECT_EQ(HumanSeconds(185), "3m 05s");
  EXPECT_EQ(HumanSeconds(7800), "2h 10m");
  EXPECT_EQ(HumanSeconds(-1), "?");
  EXPECT_EQ(HumanCount(292800), "293K");
  EXPECT_EQ(HumanCount(7241732096), "7.24B");
  EXPECT_EQ(HumanStamp(kNow), "2026-01-31 12:00:00 UTC");
  EXPECT_EQ(HumanAgo(kNow, kNow - 3000000), "3s ago");
  EXPECT_EQ(HumanAgo(kNow, kNow + 3000000), "just now");
  EXPECT_EQ(HumanAgo(kNow, 0), "-");
}

TEST(Human, CutsTextBetweenCodePoints) {
  EXPECT_EQ(Shortened("häus", 4), "häus");
  EXPECT_EQ(Shortened("häuser", 3), "hä…");
}

TEST(TextTable, AlignsByCodePointsAndLeavesNoSpacesAtLineEnds) {
  TextTable table({{"NAME"}, {"N", TextTable::Align::kRight}, {"LAST"}});
  table.AddRow({"κ/2", "10", ""});
  table.AddRow({"x", "5", "a\nb"});
  EXPECT_EQ(table.Render(),
            "NAME   N  LAST\n"
            "κ/2   10  -\n"
            "x      5  a b\n");
}

v1::Experiment Running() {
  v1::Experiment experiment;
  experiment.set_id("12");
  experiment.set_name("detect");
  experiment.set_state("running");
  experiment.set_stage(2);
  experiment.set_tasks_total(64);
  experiment.set_tasks_done(16);
  experiment.set_tasks_reused(8);
  experiment.set_progress(0.25);
  experiment.set_seconds_left(17);
  return experiment;
}

TEST(ExperimentView, WritesProgressOnALine) {
  EXPECT_EQ(RenderProgress(Running(), 3.125),
            "detect (12)  running  stage 2  16/64 tasks (8 reused)  25%  3.12 tasks/s  17s left");
}

TEST(ExperimentView, SaysWhyAnExperimentWaits) {
  v1::Experiment waiting;
  waiting.set_id("13");
  waiting.set_state("waiting");
  waiting.set_reason("waits for experiment 12");
  EXPECT_EQ(RenderProgress(waiting, -1), "13  waiting  waits for experiment 12");
  waiting.set_reason("waiting for experiment detect (e12)");
  EXPECT_EQ(RenderProgress(waiting, -1), "13  waiting  for experiment detect (e12)");
}

TEST(ExperimentView, SummarizesWhatIsDoneAndWhatFailed) {
  v1::Experiment done = Running();
  done.set_state("done");
  done.set_started_microseconds(kNow);
  done.set_finished_microseconds(kNow + 65000000);
  EXPECT_EQ(RenderSummary(done),
            "detect (12): done in 1m 05s, 16/64 tasks (8 reused); see: ropelab results 12\n");
  done.set_state("failed");
  done.set_reason("task 3: NaN in layer 1");
  EXPECT_EQ(RenderSummary(done),
            "detect (12): failed after 1m 05s, 16/64 tasks (8 reused): task 3: NaN in layer 1\n");
}

TEST(ExperimentView, SaysWhichTablesAreHeldInPart) {
  v1::ListResultsResponse response;
  auto* whole = response.add_tables();
  whole->set_name("slash_heads");
  whole->set_rows(64);
  whole->set_whole_in_sql(true);
  auto* part = response.add_tables();
  part->set_name("slash_scores");
  part->set_rows(100000);
  auto* artifact = response.add_artifacts();
  artifact->set_name("maps.safetensors");
  artifact->set_bytes(2048);
  artifact->set_sha256("ab");
  EXPECT_EQ(RenderResultsList(response),
            "TABLE           ROWS  NOTES\n"
            "slash_heads       64  -\n"
            "slash_scores  100000  the database view holds a part, this command all rows\n"
            "\n"
            "ARTIFACT             SIZE  SHA-256\n"
            "maps.safetensors  2.0 KiB  ab\n");
}

TEST(ExperimentView, SaysWhyAnExperimentHasNoResults) {
  v1::Experiment experiment = Running();
  EXPECT_EQ(RenderNoResults(experiment), "no results yet; ropelab watch 12 shows how far it is\n");
  experiment.set_state("failed");
  experiment.set_reason("task 3: NaN in layer 1");
  EXPECT_EQ(RenderNoResults(experiment), "no results: 12 failed: task 3: NaN in layer 1\n");
  experiment.set_state("cancelled");
  experiment.clear_reason();
  EXPECT_EQ(RenderNoResults(experiment), "no results: 12 is cancelled\n");
}

TEST(ExperimentView, NamesEveryModelOfAListedExperimentWithAShortHash) {
  v1::Experiment experiment = Running();
  experiment.add_models("planted@4ef921d156f2b7a196e6fa4bb4a84a8db823b97c3a44582a2ca28c69443181d3");
  experiment.add_models("unresolved");
  EXPECT_THAT(RenderExperimentList({experiment}, kNow), HasSubstr("  planted@4ef921d1, unresolved  "));
}

TEST(ExperimentView, ListsTheStudyOfAnExperiment) {
  v1::Experiment alone = Running(), member = Running();
  member.set_id("13");
  member.set_study_id("s5");
  const std::string list = RenderExperimentList({alone, member}, kNow);
  EXPECT_THAT(list, HasSubstr("STUDY"));
  EXPECT_THAT(list, HasSubstr("\n12  -      "));
  EXPECT_THAT(list, HasSubstr("\n13  s5     "));
}

TEST(ExperimentView, SaysWhatAnExperimentWaitsForBeforeTheServerGaveAReason) {
  v1::Experiment waiting;
  waiting.set_id("13");
  waiting.set_state("waiting");
  EXPECT_EQ(RenderProgress(waiting, -1), "13  waiting  for the server to plan its tasks");
}

TEST(ExperimentView, SaysWhatAnEstimateIsExpectedFrom) {
  v1::ValidateResponse response;
  v1::Estimate* estimate = response.add_estimates();
  estimate->set_experiment("near");
  estimate->set_basis("2e+10 operations");
  EXPECT_THAT(RenderEstimates(response), HasSubstr("\nnear: expected from 2e+10 operations\n"));
}

TEST(ExperimentView, SaysOnceWhatHoldsOfEveryEstimateAndAddsThemUp) {
  v1::ValidateResponse response;
  for (const char* name : {"near", "far"}) {
    v1::Estimate* estimate = response.add_estimates();
    estimate->set_experiment(name);
    estimate->set_tasks(4);
    estimate->set_device_seconds(1.5);
    estimate->set_basis(std::string(name) + " operations; loading is not counted");
  }
  response.mutable_estimates(1)->set_basis("far operations; as if heads are found; loading is not counted");
  EXPECT_THAT(
      RenderEstimates(response),
      HasSubstr("\nin all: 8 tasks, 3.0s of device time; what several of them measure is measured once\n"
                "near: expected from near operations\n"
                "far: expected from far operations; as if heads are found\n"
                "each: loading is not counted\n"));
}

TEST(TextTable, NamesEmptyColumnsApartAndBreaksLongLists) {
  std::vector<TextTable::Heading> headings{{"head"}};
  std::vector<std::string> cells{""};
  for (int i = 0; i < 12; ++i) {
    headings.push_back({"column_" + std::to_string(i)});
    cells.push_back(i % 2 == 0 ? "" : "a value");
  }
  TextTable table(headings);
  cells[0] = "0";
  table.AddRow(cells);
  cells[0] = "1";
  table.AddRow(cells);
  EXPECT_EQ(table.RenderWithin(5),
            "in every row: column_1 a value, column_3 a value, column_5 a value, column_7 a value,\n"
            "  column_9 a value, column_11 a value\n"
            "empty in every row: column_0, column_2, column_4, column_6, column_8, column_10\n"
            "head\n"
            "0\n"
            "1\n");
}

TEST(TextTable, PutsConstantColumnsAboveWhereLinesWouldBeTooWide) {
  TextTable table({{"model"}, {"seed", TextTable::Align::kRight}, {"head"}, {"rows"}});
  table.AddRow({"planted", "42", "0", "ALL"});
  table.AddRow({"planted", "42", "1", "ALL"});
  const std::string whole =
      "model    seed  head  rows\n"
      "planted    42  0     ALL\n"
      "planted    42  1     ALL\n";
  EXPECT_EQ(table.RenderWithin(25), whole);
  EXPECT_EQ(table.RenderWithin(24),
            "in every row: model planted\n"
            "seed  head  rows\n"
            "  42  0     ALL\n"
            "  42  1     ALL\n");
  EXPECT_EQ(table.RenderWithin(5),
            "in every row: model planted, seed 42, rows ALL\n"
            "head\n"
            "0\n"
            "1\n");
  TextTable one({{"model"}});
  one.AddRow({"planted"});
  EXPECT_EQ(one.RenderWithin(2), "model\nplanted\n");
}

TEST(InventoryView, TellsWhichModelsTakeTextAndWhichNobodyHolds) {
  v1::ListModelsResponse response;
  v1::KnownModel* model = response.add_models();
  model->mutable_announcement()->set_name("reads");
  model->mutable_announcement()->mutable_config()->set_has_tokenizer(true);
  model->add_workers("w1");
  model->add_workers("w2");
  model = response.add_models();
  model->mutable_announcement()->set_name("gone");
  model->set_last_seen_microseconds(kNow - 65000000);
  model = response.add_models();
  model->mutable_announcement()->set_name("broken");
  model->mutable_announcement()->set_tokenizer_hash("ab");
  const std::string text = RenderModels(response, kNow);
  EXPECT_THAT(text, testing::ContainsRegex("reads .* yes +not hashed yet  2 "));
  EXPECT_THAT(text, testing::ContainsRegex("broken .* unusable +not hashed yet"));
  EXPECT_THAT(text, testing::ContainsRegex("gone .* no +not hashed yet  none, seen 1m 05s ago  -"));
}

TEST(InventoryView, ShowsTheWholeNameOfTheModelThatAWorkerHolds) {
  v1::ListWorkersResponse response;
  v1::ConnectedWorker* worker = response.add_workers();
  worker->set_id("w1");
  worker->set_loaded_model("llama-3.2-1b-instruct");
  EXPECT_THAT(RenderWorkers(response, kNow), HasSubstr("  llama-3.2-1b-instruct  "));
}

TEST(InventoryView, ShowsAModelThatCannotBeLoadedWithItsProblem) {
  v1::ListModelsResponse response;
  auto* model = response.add_models();
  model->mutable_announcement()->set_name("broken");
  model->mutable_announcement()->set_problem("config.json: unknown family gpt9");
  EXPECT_THAT(RenderModels(response, kNow), HasSubstr("unknown family gpt9"));
  EXPECT_THAT(RenderModels({}, kNow), HasSubstr("no models"));
}

TEST(InventoryView, ShowsEveryAttemptOfATaskInTheProvenance) {
  v1::Provenance provenance;
  provenance.set_resolved_spec_text("name: \"x\"\n");
  auto* task = provenance.add_tasks();
  task->set_task(7);
  for (const char* worker : {"first/cpu/0", "second/cpu/0"}) {
    auto* attempt = task->add_attempts();
    attempt->set_worker(worker);
  }
  const std::string text = RenderProvenance(provenance);
  for (const char* part : {"EXPERIMENT", "SPEC", "MODELS", "NUMERICS", "WORKERS", "TASKS", " 1  first/cpu/0",
                           " 2  second/cpu/0"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(InventoryView, ShowsCorporaAndWhatWasVerifiedInTheProvenance) {
  v1::Provenance provenance;
  auto* corpus = provenance.add_corpora();
  corpus->set_name("moby");
  corpus->set_sha256("9a972a3434a59563");
  corpus->set_documents(3);
  EXPECT_THAT(RenderProvenance(provenance), HasSubstr("CORPORA\nname:        moby\n"));
  EXPECT_THAT(RenderProvenance(provenance), HasSubstr("9a972a3434a59563"));
  auto* model = provenance.add_models()->mutable_announcement();
  model->set_name("tiny");
  EXPECT_THAT(RenderProvenance(provenance), HasSubstr("verified:   no\n"));
  auto* verification = model->mutable_verification();
  verification->set_passed(true);
  verification->set_engine_version("3");
  verification->set_device("cpu");
  const auto add = [&](const std::string& name, double value, double bound, bool passed) {
    auto* fact = verification->add_facts();
    fact->set_name(name);
    fact->set_value(value);
    fact->set_bound(bound);
    fact->set_unit("absolute");
    fact->set_where("layer 2");
    fact->set_passed(passed);
  };
  add("rope_table", 1e-9, 1e-6, true);
  add("blockwise_attention", 4e-6, 1e-5, true);
  add("bf16_distance", 0.5, -1, true);
  EXPECT_THAT(RenderProvenance(provenance),
              HasSubstr("verified:   passed, largest blockwise_attention 4e-06 of 1e-05 absolute at layer 2 "
                        "(engine 3, cpu)\n"));
  add("gqa", 1, 0, false);
  verification->set_passed(false);
  EXPECT_THAT(RenderProvenance(provenance), HasSubstr("verified:   FAILED, largest gqa 1 of 0 "));
}

TEST(CorporaView, ListsCorporaAndWhatIsWrongWithThem) {
  v1::ListCorporaResponse response;
  EXPECT_THAT(RenderCorpora(response, 0), HasSubstr("ropelab corpora add NAME PATH"));
  auto* corpus = response.add_corpora();
  corpus->set_name("lines");
  corpus->set_kind("jsonl");
  corpus->set_documents(2);
  corpus->set_bytes(2048);
  corpus->set_sha256("1a4ce6801ca76b8c76c5");
  corpus->set_place("corpora-dir");
  corpus->set_registered_microseconds(1);
  corpus->add_text_fields("text");
  corpus->add_text_fields("question");
  corpus->set_problem("the file is gone");
  const std::string text = RenderCorpora(response, 60'000'001);
  EXPECT_THAT(
      text,
      HasSubstr("lines  jsonl          2  2.0 KiB  1a4ce6801ca7  corpora-dir  1m 00s ago  text, question\n"));
  EXPECT_THAT(text, HasSubstr("lines@1a4ce6801ca7 cannot be read: the file is gone\n"));
}

TEST(CorporaView, ProgressTellsShareRateAndTimeLeft) {
  EXPECT_EQ(RenderUpload("m", 0, 1 << 20, 0), "m  0 B of 1.0 MiB  0%");
  EXPECT_EQ(RenderUpload("m", 1 << 20, 4 << 20, 2), "m  1.0 MiB of 4.0 MiB  25%  512 KiB/s  6.0s left");
  EXPECT_EQ(RenderUpload("m", 8 << 20, 4 << 20, 2), "m  8.0 MiB of 4.0 MiB  100%  4.0 MiB/s  0.0s left");
}

TEST(JsonView, WritesSnakeCaseIntegersAsNumbersAndDefaults) {
  v1::TableInfo info;
  info.set_name("t");
  info.set_rows(9007199254740993);
  EXPECT_EQ(JsonLine(ToJson(info)),
            R"({"name":"t","rows":9007199254740993,"partial":false,"whole_in_sql":false})");
}

TEST(JsonView, WritesEnumsByNameAndLeavesAbsentFieldsOut) {
  v1::SlashDetection detection;
  EXPECT_EQ(JsonLine(ToJson(detection)), "{}");
  detection.set_rows(v1::Rows::COMMON);
  detection.set_threshold(0);
  EXPECT_EQ(JsonLine(ToJson(detection)), R"({"threshold":0.0,"rows":"COMMON"})");
}

TEST(JsonView, SurvivesBytesThatAreNotUtf8) {
  EXPECT_EQ(JsonLine("\xFF"), "\"\xEF\xBF\xBD\"");
}

}  // namespace
}  // namespace ropelab::client
