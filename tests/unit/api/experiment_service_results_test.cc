#include <google/protobuf/text_format.h>

#include "absl/strings/str_cat.h"
#include "common/sha256.h"
#include "gmock/gmock.h"
#include "server/store/experiments.h"
#include "server/store/models.h"
#include "server/store/results.h"
#include "server/store/tasks.h"
#include "tests/unit/api/experiment_service_fixture.h"

namespace ropelab::api {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// series(model, dtype, numerics_class, name, x, y) with rows (norms, i, i*i).
store::ResultTable Squares(int64_t rows) {
  store::ResultTable table;
  table.slice.set_table("series");
  table.slice.set_rows(rows);
  for (const char* name : {"model", "dtype", "numerics_class", "name"}) {
    v1::Column* column = table.slice.add_columns();
    column->set_name(name);
    column->set_type(v1::Column::TEXT);
    column->set_key(true);
    for (int64_t i = 0; i < rows; ++i) {
      column->add_texts("norms");
    }
  }
  for (const char* name : {"x", "y"}) {
    v1::Column* column = table.slice.add_columns();
    column->set_name(name);
    column->set_type(v1::Column::REAL);
    column->set_key(column->name() == "x");
    for (int64_t i = 0; i < rows; ++i) {
      column->add_reals(column->name() == "x" ? i : static_cast<double>(i) * i);
    }
  }
  return table;
}

class ResultsTest : public ExperimentServiceTest {
 protected:
  void Finish(const std::string& id, int64_t rows, const std::string& artifact) {
    absl::StatusOr<std::string> sha256 = store_->artifacts().Put(artifact);
    ASSERT_TRUE(sha256.ok()) << sha256.status().ToString();
    const absl::Status status = store_->WriteAndWait([&](store::Connection& db) -> absl::Status {
      store::ResultArtifact named{"scores.safetensors", *sha256, static_cast<int64_t>(artifact.size())};
      absl::StatusOr<std::string> digest =
          store::InsertResults(db, store_->artifacts(), Number(id), {Squares(rows)}, {named}, false);
      return digest.ok() ? store::SetExperimentState(db, Number(id), "done", "", 9).status()
                         : digest.status();
    });
    ASSERT_TRUE(status.ok()) << status.ToString();
  }

  grpc::Status Read(const std::string& id, const std::string& table, std::vector<double>* y) {
    v1::ResultsRequest request;
    request.set_id(id);
    request.set_table(table);
    const auto call = Call();
    const auto stream = stub_->Results(call.get(), request);
    v1::TableSlice slice;
    while (stream->Read(&slice)) {
      EXPECT_EQ(slice.table(), table);
      const auto& reals = slice.columns(slice.columns_size() - 1).reals();
      y->insert(y->end(), reals.begin(), reals.end());
    }
    return stream->Finish();
  }
};

TEST_F(ResultsTest, ATableComesWholeAndInOrder) {
  const std::string id = SubmitGeometry("r1");
  Finish(id, 100000, "x");
  std::vector<double> y;
  const grpc::Status status = Read(id, "series", &y);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(y.size(), 100000u);
  EXPECT_EQ(y[3], 9);
  EXPECT_EQ(y[99999], 99999.0 * 99999.0);
}

TEST_F(ResultsTest, ListResultsNamesTablesAndArtifacts) {
  const std::string id = SubmitGeometry("r1");
  Finish(id, 3, "abc");
  v1::ListResultsRequest request;
  request.set_id(id);
  v1::ListResultsResponse response;
  ASSERT_TRUE(stub_->ListResults(Call().get(), request, &response).ok());
  ASSERT_EQ(response.tables_size(), 1);
  EXPECT_EQ(response.tables(0).name(), "series");
  EXPECT_EQ(response.tables(0).rows(), 3);
  ASSERT_EQ(response.artifacts_size(), 1);
  EXPECT_EQ(response.artifacts(0).bytes(), 3);
}

TEST_F(ResultsTest, AMissingTableNamesThoseThatExist) {
  const std::string id = SubmitGeometry("r1");
  std::vector<double> y;
  grpc::Status status = Read(id, "series", &y);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("waiting"));
  Finish(id, 3, "abc");
  status = Read(id, "slash_heads", &y);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("it has series"));
  EXPECT_EQ(Read("e42", "series", &y).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(ResultsTest, AnArtifactComesInPiecesWithItsHash) {
  const std::string id = SubmitGeometry("r1");
  std::string bytes(2'500'000, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>(i * 7 + i / 1000);
  }
  Finish(id, 1, bytes);
  v1::ArtifactRequest request;
  request.set_id(id);
  request.set_name("scores.safetensors");
  const auto call = Call();
  const auto stream = stub_->Artifact(call.get(), request);
  v1::ArtifactData piece;
  std::string received;
  ASSERT_TRUE(stream->Read(&piece));
  EXPECT_EQ(piece.total_bytes(), 2'500'000);
  EXPECT_EQ(piece.sha256(), Sha256Hex(bytes));
  do {
    EXPECT_LE(piece.data().size(), size_t{1} << 20);
    received += piece.data();
  } while (stream->Read(&piece));
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(received, bytes);
}

TEST_F(ResultsTest, AClientThatReadsNothingIsCutAndHoldsNoThread) {
  const std::string id = SubmitGeometry("r1");
  Finish(id, 1, std::string(64 << 20, 'z'));
  v1::ArtifactRequest request;
  request.set_id(id);
  request.set_name("scores.safetensors");
  std::vector<std::unique_ptr<grpc::ClientContext>> calls;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::ArtifactData>>> stalled;
  for (int i = 0; i < 2; ++i) {  // as many as the pool has threads
    calls.push_back(Call());
    stalled.push_back(stub_->Artifact(calls.back().get(), request));
  }
  v1::ArtifactData piece;
  for (const auto& stream : stalled) {
    ASSERT_TRUE(stream->Read(&piece));  // both threads are at work now
  }
  std::vector<double> y;
  EXPECT_TRUE(Read(id, "series", &y).ok()) << "it waits until one of the two was cut";
  int cut = 0;
  for (const auto& stream : stalled) {
    while (stream->Read(&piece)) {
    }
    cut += stream->Finish().ok() ? 0 : 1;
  }
  EXPECT_GE(cut, 1);
}

TEST_F(ResultsTest, ProvenanceTellsSpecTasksAttemptsAndClasses) {
  const std::string id = SubmitGeometry("r1");
  v1::Hello hello;
  hello.set_worker_id("w1");
  hello.mutable_numerics()->set_hash("0123456789abcdef");
  hello.mutable_numerics()->add_ingredients("engine=1");
  const absl::Status written = store_->WriteAndWait([&](store::Connection& db) -> absl::Status {
    absl::Status status = store::RecordWorker(db, hello, 1, 1);
    if (status.ok()) status = store::BeginStage(db, Number(id), 1, "");
    store::NewTask task;
    task.key = std::string(64, 'b');
    task.kind = "rope_geometry";
    task.measurement = "m";
    if (status.ok())
      status = store::InsertStageTasks(db, store_->artifacts(), Number(id), 1, 0, {task}, "", false);
    if (status.ok()) status = store::FinishPlanning(db, Number(id), 1, "", 1);
    if (status.ok()) status = store::PinExperiment(db, Number(id), "0123456789abcdef").status();
    if (!status.ok()) return status;
    store::GrantFacts facts;
    facts.task = 1;
    facts.session_epoch = 1;
    facts.worker = "w1";
    facts.incarnation = "i1";
    facts.build = "ropelab 0.1.0";
    facts.device = "cpu";
    facts.numerics_class = "0123456789abcdef";
    facts.now_us = 10;
    return store::OpenAttempt(db, facts).status();
  });
  ASSERT_TRUE(written.ok()) << written.ToString();

  v1::ProvenanceRequest request;
  request.set_id(id);
  v1::Provenance shown;
  const grpc::Status status = stub_->GetProvenance(Call().get(), request, &shown);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(shown.experiment().id(), id);
  EXPECT_EQ(shown.experiment().tasks_total(), 1);
  EXPECT_EQ(shown.spec_hash(), shown.experiment().spec_hash());
  v1::ExperimentSpec spec;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(shown.resolved_spec_text(), &spec));
  EXPECT_TRUE(spec.has_rope_geometry());
  EXPECT_EQ(shown.seeds_size(), spec.seeds_size());
  ASSERT_EQ(shown.numerics_size(), 1);
  EXPECT_THAT(shown.numerics(0).ingredients(), ElementsAre("engine=1"));
  ASSERT_EQ(shown.tasks_size(), 1);
  EXPECT_EQ(shown.tasks(0).key(), std::string(64, 'b'));
  EXPECT_FALSE(shown.tasks(0).reused());
  EXPECT_FALSE(shown.more_tasks());
  ASSERT_EQ(shown.tasks(0).attempts_size(), 1);
  EXPECT_EQ(shown.tasks(0).attempts(0).worker(), "w1");
  EXPECT_EQ(shown.tasks(0).attempts(0).outcome(), "running");
}

TEST_F(ResultsTest, ProvenanceThatDoesNotFitAMessageComesInPages) {
  const std::string id = SubmitGeometry("r1");
  constexpr int kTasks = 3000;
  const absl::Status written = store_->WriteAndWait([&](store::Connection& db) -> absl::Status {
    store::NewTask task;
    task.kind = std::string(2000, 'k');
    task.measurement = "m";
    std::vector<store::NewTask> tasks(kTasks, task);
    for (int i = 0; i < kTasks; ++i) {
      absl::StrAppend(&tasks[i].key, "key", i);
    }
    absl::Status status = store::BeginStage(db, Number(id), 1, "");
    if (!status.ok()) return status;
    return store::InsertStageTasks(db, store_->artifacts(), Number(id), 1, 0, tasks, "", false);
  });
  ASSERT_TRUE(written.ok()) << written.ToString();
  v1::ProvenanceRequest request;
  request.set_id(id);
  int64_t received = 0;
  int pages = 0;
  v1::Provenance page;
  do {
    request.set_skip_tasks(received);
    const grpc::Status status = stub_->GetProvenance(Call().get(), request, &page);
    ASSERT_TRUE(status.ok()) << status.error_message();
    for (const v1::TaskProvenance& task : page.tasks()) {
      ASSERT_EQ(task.index(), received++);
    }
    ++pages;
  } while (page.more_tasks());
  EXPECT_EQ(received, kTasks);
  EXPECT_EQ(pages, 2);
}

}  // namespace
}  // namespace ropelab::api
