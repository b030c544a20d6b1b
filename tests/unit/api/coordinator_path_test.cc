// From a submit to a result: planning, grants, readings, stages, reuse.
#include <atomic>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/api/experiment_service_provenance.h"
#include "server/store/models.h"
#include "tests/unit/api/coordinator_fixture.h"

namespace ropelab::api {
namespace {

using std::chrono::milliseconds;

TEST_F(CoordinatorTest, MeasuresEveryBlockAndReduces) {
  FakeWorker worker = Worker("w");
  worker.Connect();
  EXPECT_GT(worker.Welcomed().session_epoch(), 0);
  const int64_t experiment = Submit("r", 24);
  EXPECT_EQ(FinishUntilFinal(worker, experiment), 3);
  ASSERT_TRUE(Reaches(experiment, "done"));
  const store::ExperimentRow row = Row(experiment);
  EXPECT_EQ(row.numerics_class, "c1");
  EXPECT_EQ(row.result_digest.size(), 64u);
  EXPECT_GT(row.started_us, 0);
  EXPECT_EQ(row.models, "tiny@weights+") << "no tokenizer";
  for (const store::TaskRow& task : Tasks(experiment)) {
    EXPECT_EQ(task.state, "finished");
    EXPECT_EQ(task.readings, 2);
    EXPECT_EQ(Attempts(task.id).size(), 1u);
  }
}

TEST_F(CoordinatorTest, AGrantsRowIsThereWhenTheGrantIs) {
  FakeWorker worker = ConnectedWorker("w");
  Submit("r", 8);
  const auto grant = worker.Granted();
  ASSERT_TRUE(grant.has_value());
  const auto attempts = Attempts(grant->token().task());
  ASSERT_EQ(attempts.size(), 1u);
  EXPECT_EQ(attempts[0].outcome, "running");
  EXPECT_EQ(attempts[0].attempt, grant->token().attempt());
  EXPECT_EQ(grant->model(), "tiny");
  EXPECT_EQ(grant->resume_after(), 0);
}

TEST_F(CoordinatorTest, AnAcknowledgedReadingIsInTheStore) {
  FakeWorker worker = ConnectedWorker("w");
  Submit("r", 8);
  const auto grant = worker.Granted();
  ASSERT_TRUE(grant.has_value());
  worker.Reads(grant->token(), 1, ReadingsOf(grant->measurement())[0]);
  ASSERT_TRUE(worker.Acknowledged(grant->token(), 1));
  EXPECT_TRUE(store_
                  ->Read([&](store::Connection& db) -> absl::Status {
                    const auto task = store::GetTask(db, grant->token().task());
                    EXPECT_TRUE(task.ok());
                    EXPECT_EQ(task->readings, 1);
                    return absl::OkStatus();
                  })
                  .ok());
}

TEST_F(CoordinatorTest, PlansTheSecondStageFromTheReadingsOfTheFirst) {
  FakeWorker worker = ConnectedWorker("w");
  const int64_t experiment = Submit("r", 16, /*sampled=*/true);
  EXPECT_EQ(FinishUntilFinal(worker, experiment), 4);
  ASSERT_TRUE(Reaches(experiment, "done"));
  EXPECT_EQ(Tasks(experiment, 1).size(), 2u);
  EXPECT_EQ(Tasks(experiment, 2).size(), 2u);
}

TEST_F(CoordinatorTest, TheResultDoesNotDependOnHowManyWorkersMeasured) {
  FakeWorker worker = ConnectedWorker("w");
  const int64_t first = Submit("r", 40);
  EXPECT_EQ(FinishUntilFinal(worker, first), 5);
  ASSERT_TRUE(Reaches(first, "done"));
  const std::string digest = Row(first).result_digest;

  StartAnew();
  FakeWorker a = ConnectedWorker("a"), b = Worker("b");
  b.Connect();
  b.Welcomed();
  const int64_t second = Submit("r", 40);
  std::vector<v1::Grant> late;
  while (const auto grant = a.Granted(milliseconds(200))) {
    late.push_back(*grant);
  }
  EXPECT_EQ(late.size(), 2u);
  EXPECT_EQ(b.FinishesEverything(milliseconds(200)), 3);
  for (const v1::Grant& grant : late) {
    a.Finishes(grant);  // the first blocks come last
  }
  ASSERT_TRUE(Reaches(second, "done"));
  EXPECT_EQ(Row(second).result_digest, digest);
}

TEST_F(CoordinatorTest, ASecondExperimentMeasuresOnlyWhatIsNew) {
  FakeWorker worker = ConnectedWorker("w");
  const int64_t small = Submit("r1", 16);
  EXPECT_EQ(FinishUntilFinal(worker, small), 2);
  ASSERT_TRUE(Reaches(small, "done"));
  const int64_t large = Submit("r2", 32);
  EXPECT_EQ(FinishUntilFinal(worker, large), 2) << "two of its four blocks were measured already";
  ASSERT_TRUE(Reaches(large, "done"));
  const int64_t same = Submit("r3", 16);
  ASSERT_TRUE(Reaches(same, "done")) << "all of it was measured already";
  EXPECT_EQ(Row(same).result_digest, Row(small).result_digest);
  EXPECT_GE(Row(same).started_us, Row(same).submitted_us) << "it started when it was reduced";
  EXPECT_LE(Row(same).started_us, Row(same).finished_us);
}

TEST_F(CoordinatorTest, ATaskThatRunsIsNotGrantedAgainForAnotherExperiment) {
  FakeWorker a = ConnectedWorker("a"), b = Worker("b");
  const int64_t first = Submit("r1", 8);
  const auto grant = a.Granted();
  ASSERT_TRUE(grant.has_value());
  b.Connect();
  b.Welcomed();
  const int64_t second = Submit("r2", 8);
  EXPECT_FALSE(b.Granted(milliseconds(400)).has_value());
  a.Finishes(*grant);
  EXPECT_TRUE(Reaches(first, "done"));
  EXPECT_TRUE(Reaches(second, "done"));
}

TEST_F(CoordinatorTest, WaitsForTheWeightsHashAndSaysSo) {
  FakeWorker worker = Worker("w");
  worker.knows_weights = false;
  worker.Connect();
  worker.Welcomed();
  const int64_t experiment = Submit("r", 8);
  const auto asked = worker.link().Next(v1::ServerMessage::kHashRequest);
  ASSERT_TRUE(asked.has_value());
  EXPECT_EQ(asked->hash_request().model(), "tiny");
  EXPECT_EQ(Row(experiment).state, "waiting");
  EXPECT_EQ(coordinator_->Live(experiment).reason, "hashing weights of tiny on worker w");
  worker.TellsHash("tiny", "weights");
  EXPECT_EQ(FinishUntilFinal(worker, experiment), 1);
  EXPECT_TRUE(Reaches(experiment, "done"));
}

TEST_F(CoordinatorTest, ProvenanceSaysOfEachTaskWhichWeightsAndWhichSeed) {
  FakeWorker worker = ConnectedWorker("w");
  const int64_t experiment = Submit("r", 8, /*sampled=*/false, /*seed=*/7);
  EXPECT_EQ(FinishUntilFinal(worker, experiment), 1);
  ServiceContext context;
  context.store = store_.get();
  context.coordinator = coordinator_.get();
  context.metrics = metrics_.get();
  context.clock = &Clock::Real();
  v1::ProvenanceRequest request;
  request.set_id(absl::StrCat("e", experiment));
  v1::Provenance provenance;
  ASSERT_TRUE(GetProvenance(context, request, provenance).ok());
  ASSERT_EQ(provenance.tasks_size(), 1);
  EXPECT_EQ(provenance.tasks(0).model(), "tiny");
  EXPECT_EQ(provenance.tasks(0).weights_hash(), "weights");
  ASSERT_EQ(provenance.tasks(0).seeds_size(), 1);
  EXPECT_EQ(provenance.tasks(0).seeds(0), 7u);
  EXPECT_EQ(provenance.tasks(0).attempts(0).worker(), "w");
}

TEST_F(CoordinatorTest, AnExperimentWaitsForItsWeightsWhenOthersCameAndSaysSo) {
  {
    FakeWorker before = ConnectedWorker("w");
    EXPECT_EQ(FinishUntilFinal(before, Submit("before", 8)), 1);
    before.Disconnect();
  }
  // Its files were exchanged while it was away, and are not hashed yet.
  FakeWorker worker = Worker("w", "i2");
  worker.knows_weights = false;
  worker.Connect();
  worker.Welcomed();
  const int64_t experiment = Submit("after", 16);
  ASSERT_TRUE(worker.link().Next(v1::ServerMessage::kHashRequest).has_value());
  worker.TellsHash("tiny", "new weights");
  EXPECT_TRUE(Eventually([&] {
    return coordinator_->Live(experiment).reason ==
           "no connected worker holds model tiny with the weights that this experiment was planned with, "
           "weights (worker w has new weights under this name): put those files back, or cancel and submit "
           "again";
  })) << coordinator_->Live(experiment).reason;
}

TEST_F(CoordinatorTest, ATaskThatNeedsATokenizerAloneRunsWhereSuchAOneIs) {
  AddCorpus("books", std::vector<std::string>(8, "some words"));
  FakeWorker holder = Worker("holder");
  holder.tokenizer_hash = "tok";
  holder.Connect();
  holder.Welcomed();
  FakeWorker other = Worker("other"), stranger = Worker("stranger");
  other.model = "namesake of none";
  other.weights_hash = "other weights";
  other.tokenizer_hash = "tok";
  other.Connect();
  other.Welcomed();
  stranger.model = "bare";
  stranger.weights_hash = "bare weights";
  stranger.Connect();
  stranger.Welcomed();
  // Whoever is busy takes nothing else: the holder with a task of its own, the stranger has no tokenizer.
  Submit("busy", 8);
  const auto busy = holder.Granted();
  ASSERT_TRUE(busy.has_value());
  const int64_t experiment = SubmitPrompts("r", "corpus { name: \"books\" count: 8 tokens: 16 }");
  const auto lengths = other.Granted();
  ASSERT_TRUE(lengths.has_value());
  EXPECT_TRUE(lengths->measurement().has_text_lengths());
  EXPECT_EQ(lengths->measurement().model().weights_hash(), "");
  EXPECT_EQ(lengths->model(), "namesake of none") << "as that worker calls it";
  EXPECT_EQ(Tasks(experiment).at(0).tokenizer_hash, "tok");
  for (const v1::ConnectedWorker& worker : coordinator_->Workers()) {
    EXPECT_EQ(worker.loaded_model(), worker.id() == "holder" ? "tiny" : "") << "tokenizing loads no weights";
  }
  other.Finishes(*lengths);
  holder.Finishes(*busy);
  const auto profile = holder.Granted();
  ASSERT_TRUE(profile.has_value());
  EXPECT_TRUE(profile->measurement().has_slash_profile());
  EXPECT_EQ(profile->model(), "tiny");
  holder.Finishes(*profile);
  EXPECT_TRUE(Reaches(experiment, "done"));
  EXPECT_FALSE(stranger.Granted(milliseconds(50)).has_value());
}

TEST_F(CoordinatorTest, EqualWeightsBesideAnotherTokenizerTakeNoTextAndAllElse) {
  FakeWorker right = Worker("right"), wrong = Worker("wrong");
  right.tokenizer_hash = "tok";
  right.Connect();
  right.Welcomed();
  wrong.model = "other name";
  wrong.tokenizer_hash = "other tok";
  wrong.Connect();
  wrong.Welcomed();
  const int64_t reads = SubmitPrompts("r", "generated { count: 32 tokens: 16 }");
  EXPECT_EQ(right.FinishesEverything(), 4);
  EXPECT_FALSE(wrong.Granted(milliseconds(50)).has_value());
  EXPECT_TRUE(Reaches(reads, "done"));
  for (const store::TaskRow& task : Tasks(reads)) {
    EXPECT_EQ(task.tokenizer_hash, "tok");
    EXPECT_EQ(task.config_hash, "cfg");
    EXPECT_EQ(Attempts(task.id).size(), 1u);
  }
  // Without text either will do.
  const int64_t draws = Submit("u", 16);
  const auto first = right.Granted(), second = wrong.Granted();
  ASSERT_TRUE(first.has_value() && second.has_value());
  EXPECT_EQ(second->model(), "other name") << "as that worker calls it";
  EXPECT_EQ(second->measurement().model().tokenizer_hash(), "tok") << "the key's, not the worker's";
  right.Finishes(*first);
  wrong.Finishes(*second);
  EXPECT_TRUE(Reaches(draws, "done"));
  EXPECT_EQ(Tasks(draws).at(0).tokenizer_hash, "");
  // The only holder leaves.
  right.Disconnect();
  const int64_t waits = SubmitPrompts("w", "generated { count: 8 tokens: 16 }", /*seed=*/7);
  EXPECT_TRUE(Eventually([&] {
    return coordinator_->Live(waits).reason ==
           "no connected worker holds model tiny with the tokenizer that this experiment was planned with, "
           "tok "
           "(worker wrong has its weights as other name with other tok): put that tokenizer.json beside the "
           "weights again, or cancel and submit again";
  })) << coordinator_->Live(waits).reason;
}

TEST_F(CoordinatorTest, AnExperimentKeepsTheTokenizerThatItWasResolvedWith) {
  FakeWorker first = Worker("first"), second = Worker("second");
  first.tokenizer_hash = "tok";
  first.knows_weights = false;
  first.Connect();
  first.Welcomed();
  const int64_t experiment = SubmitPrompts("r", "generated { count: 8 tokens: 16 }");
  EXPECT_EQ(Row(experiment).models, "tiny@+tok");
  ASSERT_TRUE(first.link().Next(v1::ServerMessage::kHashRequest).has_value());
  first.Disconnect();
  // The same name and weights, seen later.
  second.tokenizer_hash = "other tok";
  second.Connect();
  second.Welcomed();
  EXPECT_TRUE(Eventually([&] {
    return coordinator_->Live(experiment).reason ==
           "no connected worker holds model tiny with tokenizer tok; worker second has it with other tok: "
           "put "
           "that tokenizer.json back, or cancel and submit again";
  })) << coordinator_->Live(experiment).reason;
  first.Connect();
  first.Welcomed();
  first.TellsHash("tiny", "weights");
  const auto grant = first.Granted();
  ASSERT_TRUE(grant.has_value());
  EXPECT_EQ(grant->measurement().model().tokenizer_hash(), "tok");
  EXPECT_EQ(Row(experiment).models, "tiny@weights+tok");
  first.Finishes(*grant);
  EXPECT_TRUE(Reaches(experiment, "done"));
  EXPECT_FALSE(second.Granted(milliseconds(50)).has_value());
}

TEST_F(CoordinatorTest, SaysThatNoWorkerHasTheTokenizer) {
  AddCorpus("books", std::vector<std::string>(8, "some words"));
  FakeWorker holder = Worker("holder");
  holder.tokenizer_hash = "tok";
  holder.Connect();
  holder.Welcomed();
  holder.Disconnect();
  FakeWorker stranger = Worker("stranger");
  stranger.model = "bare";
  stranger.weights_hash = "bare weights";
  stranger.Connect();
  stranger.Welcomed();
  const int64_t experiment = SubmitPrompts("r", "corpus { name: \"books\" count: 8 tokens: 16 }");
  EXPECT_TRUE(Eventually([&] {
    return coordinator_->Live(experiment)
               .reason.find("no connected worker holds a model with the tokenizer of tiny") == 0;
  })) << coordinator_->Live(experiment).reason;
}

TEST_F(CoordinatorTest, WhatWasVerifiedOfTheWeightsStaysKnown) {
  FakeWorker worker = Worker("w");
  worker.knows_weights = false;
  worker.Connect();
  worker.Welcomed();
  Submit("r", 8);
  ASSERT_TRUE(worker.link().Next(v1::ServerMessage::kHashRequest).has_value());
  v1::WorkerMessage message;
  message.mutable_weights_hash()->set_model("tiny");
  message.mutable_weights_hash()->set_weights_hash("weights");
  message.mutable_weights_hash()->mutable_verification()->set_passed(true);
  worker.Say(std::move(message));
  ASSERT_TRUE(worker.Granted().has_value());
  const auto verified = [&] {
    const auto known = [&] {
      std::vector<store::ModelRow> rows;
      EXPECT_TRUE(store_
                      ->Read([&](store::Connection& db) -> absl::Status {
                        ROPELAB_ASSIGN_OR_RETURN(rows, store::KnownModels(db));
                        return absl::OkStatus();
                      })
                      .ok());
      return rows;
    }();
    return known.size() == 1 && known[0].announcement.verification().passed();
  };
  EXPECT_TRUE(verified());
  FakeWorker again = ConnectedWorker("again");  // announces the hash and says nothing of a verification
  EXPECT_TRUE(verified());
}

TEST_F(CoordinatorTest, FailsWhenTheOnlyWorkerCannotHashTheWeights) {
  FakeWorker worker = Worker("w");
  worker.knows_weights = false;
  worker.Connect();
  worker.Welcomed();
  const int64_t experiment = Submit("r", 8);
  ASSERT_TRUE(worker.link().Next(v1::ServerMessage::kHashRequest).has_value());
  worker.TellsHash("tiny", "", "model.safetensors is cut short at byte 100");
  ASSERT_TRUE(Reaches(experiment, "failed"));
  EXPECT_NE(Row(experiment).reason.find("cut short at byte 100"), std::string::npos);
}

TEST_F(CoordinatorTest, GrantsAheadWhileATaskRuns) {
  FakeWorker worker = ConnectedWorker("w");
  Submit("r", 24);
  const auto running = worker.Granted();
  const auto ahead = worker.Granted();
  ASSERT_TRUE(running.has_value() && ahead.has_value());
  EXPECT_FALSE(running->ahead());
  EXPECT_TRUE(ahead->ahead());
  EXPECT_FALSE(worker.Granted(milliseconds(300)).has_value());
}

TEST_F(CoordinatorTest, TellsSubscribersAndShowsProgress) {
  FakeWorker worker = ConnectedWorker("w");
  const int64_t experiment = Submit("r", 24);
  auto count = std::make_shared<std::atomic<int>>(0);
  const int64_t handle = coordinator_->Subscribe(experiment, [count] { ++*count; });
  const auto grant = worker.Granted();
  ASSERT_TRUE(grant.has_value());
  worker.Beats(&grant->token());
  EXPECT_TRUE(Eventually([&] { return coordinator_->Live(experiment).running_progress == 0.25; }));
  EXPECT_GT(count->load(), 0);
  const auto workers = coordinator_->Workers();
  ASSERT_EQ(workers.size(), 1u);
  EXPECT_EQ(workers[0].state(), "running");
  EXPECT_EQ(workers[0].task(), grant->token().task());
  EXPECT_EQ(workers[0].loaded_model(), "tiny");
  coordinator_->Unsubscribe(handle);
}

TEST_F(CoordinatorTest, AContradictingReadingIsKeptAsideAcknowledgedAndCounted) {
  FakeWorker worker = ConnectedWorker("w");
  const int64_t experiment = Submit("r", 8);
  const auto grant = worker.Granted();
  ASSERT_TRUE(grant.has_value());
  const auto readings = ReadingsOf(grant->measurement());
  worker.Reads(grant->token(), 1, readings[0]);
  ASSERT_TRUE(worker.Acknowledged(grant->token(), 1));
  worker.Reads(grant->token(), 1, readings[1]);
  ASSERT_TRUE(worker.Acknowledged(grant->token(), 1));
  EXPECT_TRUE(store_
                  ->Read([&](store::Connection& db) -> absl::Status {
                    EXPECT_EQ(*store::DivergencesOf(db, experiment), 1);
                    return absl::OkStatus();
                  })
                  .ok());
  double counted = 0;
  for (const auto& family : registry_->Collect()) {
    if (family.name == "ropelab_divergent_readings_total") {
      counted = family.metric[0].counter.value;
    }
  }
  EXPECT_EQ(counted, 1);
}

}  // namespace
}  // namespace ropelab::api
