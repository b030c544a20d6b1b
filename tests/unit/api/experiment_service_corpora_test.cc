// Corpora over a real channel: added by clients, listed, read by workers, named in a provenance; and those
// that lie under --corpora.
#include <filesystem>
#include <fstream>
#include <thread>

#include "common/sha256.h"
#include "common/status_macros.h"
#include "gmock/gmock.h"
#include "ropelab/v1/worker_service.grpc.pb.h"
#include "server/api/catalogue.h"
#include "server/api/corpora_dir.h"
#include "server/api/experiment_service_corpora.h"
#include "server/api/worker_service.h"
#include "tests/unit/api/experiment_service_fixture.h"

namespace ropelab::api {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

// python3: hashlib.sha256(b"".join(struct.pack("<Q", len(d)) + d for d in [b"zero", b"one"])).hexdigest()
constexpr char kZeroOne[] = "6ef2e71d466d604bec52a16138d64cfe32efa6263cce9958faaa21d2f51e4338";

class CorporaServiceTest : public ExperimentServiceTest {
 protected:
  void SetUp() override {
    ExperimentServiceTest::SetUp();
    context_.store = store_.get();
    context_.coordinator = coordinator_.get();
    context_.corpora = corpora_.get();
    context_.metrics = metrics_.get();
    context_.clock = &Clock::Real();
    workers_ = MakeWorkerService(context_);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(workers_.get());
    worker_server_ = builder.BuildAndStart();
    worker_stub_ = v1::WorkerService::NewStub(
        grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()));
    folder_in_ = folder_ + "/in";
    fs::create_directories(folder_in_);
  }
  void TearDown() override {
    worker_server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(2));
    ExperimentServiceTest::TearDown();
  }

  static v1::AddCorpusRequest Head(const std::string& name, const std::string& kind) {
    v1::AddCorpusRequest request;
    request.mutable_head()->set_name(name);
    request.mutable_head()->set_kind(kind);
    request.mutable_head()->set_user("ada");
    return request;
  }
  static v1::AddCorpusRequest Piece(const std::string& data, bool ends = true) {
    v1::AddCorpusRequest request;
    request.set_data(data);
    request.set_document_ends(ends);
    return request;
  }
  grpc::Status Add(const std::vector<v1::AddCorpusRequest>& requests, v1::AddCorpusResponse* response) {
    const auto call = Call();
    const auto writer = stub_->AddCorpus(call.get(), response);
    for (const v1::AddCorpusRequest& request : requests) {
      if (!writer->Write(request)) break;
    }
    writer->WritesDone();
    return writer->Finish();
  }
  std::vector<v1::Corpus> List() {
    v1::ListCorporaResponse response;
    EXPECT_TRUE(stub_->ListCorpora(Call().get(), v1::ListCorporaRequest(), &response).ok());
    return {response.corpora().begin(), response.corpora().end()};
  }
  struct Answer {
    grpc::Status status;
    std::string bytes, sha256;
    int64_t total = -1;
  };
  Answer ReadDocument(const std::string& sha256, int64_t document) {
    v1::ReadCorpusRequest request;
    request.set_corpus(sha256);
    request.set_document(document);
    const auto call = Call();
    const auto reader = worker_stub_->ReadCorpus(call.get(), request);
    Answer answer;
    v1::CorpusBytes message;
    for (bool first = true; reader->Read(&message); first = false) {
      if (first) answer.total = message.total();
      EXPECT_LE(message.data().size(), 1u << 20);
      EXPECT_EQ(answer.sha256, "") << "the hash comes last";
      answer.bytes += message.data();
      answer.sha256 = message.sha256();
    }
    answer.status = reader->Finish();
    return answer;
  }
  size_t FilesLeft() {
    size_t files = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ + "/corpora")) {
      files += entry.is_regular_file();
    }
    return files;
  }
  void Put(const std::string& name, const std::string& text) {
    std::ofstream(folder_in_ + "/" + name, std::ios::binary) << text;
  }
  void RegisterFolder() {
    RegisterCorporaDir(context_, folder_in_, [] { return false; });
  }

  ServiceContext context_;
  std::unique_ptr<v1::WorkerService::CallbackService> workers_;
  std::unique_ptr<grpc::Server> worker_server_;
  std::unique_ptr<v1::WorkerService::Stub> worker_stub_;
  std::string folder_in_;
};

TEST_F(CorporaServiceTest, WhatAClientAddsWorkersRead) {
  v1::AddCorpusResponse response;
  ASSERT_TRUE(Add({Head("books", "text"), Piece("ze", false), Piece("ro"), Piece("one")}, &response).ok());
  EXPECT_EQ(response.corpus().sha256(), kZeroOne);
  EXPECT_EQ(response.corpus().documents(), 2);
  EXPECT_EQ(response.corpus().bytes(), 7);
  EXPECT_EQ(response.corpus().place(), "data-dir");
  EXPECT_GT(response.corpus().registered_microseconds(), 0);
  EXPECT_FALSE(response.already_registered());
  ASSERT_EQ(List().size(), 1u);
  EXPECT_EQ(List()[0].SerializeAsString(), response.corpus().SerializeAsString());
  const Answer answer = ReadDocument(kZeroOne, 1);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.bytes, "one");
  EXPECT_EQ(answer.total, 3);
  EXPECT_EQ(answer.sha256, Sha256Hex("one"));
}

TEST_F(CorporaServiceTest, ALongDocumentArrivesWhole) {
  std::string text;
  for (int i = 0; text.size() < 5'000'000; ++i) text += std::to_string(i);
  std::vector<v1::AddCorpusRequest> requests = {Head("long", "text")};
  for (size_t at = 0; at < text.size(); at += 1 << 20) {
    requests.push_back(Piece(text.substr(at, 1 << 20), at + (1 << 20) >= text.size()));
  }
  v1::AddCorpusResponse response;
  ASSERT_TRUE(Add(requests, &response).ok());
  const Answer answer = ReadDocument(response.corpus().sha256(), 0);
  EXPECT_EQ(answer.bytes, text);
  EXPECT_EQ(answer.total, static_cast<int64_t>(text.size()));
  EXPECT_EQ(answer.sha256, Sha256Hex(text));
}

TEST_F(CorporaServiceTest, TheSameAgainChangesNothingAndOtherContentComesFirst) {
  v1::AddCorpusResponse first, again, other;
  ASSERT_TRUE(Add({Head("books", "text"), Piece("zero"), Piece("one")}, &first).ok());
  ASSERT_TRUE(Add({Head("books", "text"), Piece("zero"), Piece("one")}, &again).ok());
  EXPECT_TRUE(again.already_registered());
  EXPECT_EQ(again.corpus().SerializeAsString(), first.corpus().SerializeAsString());
  ASSERT_TRUE(Add({Head("books", "text"), Piece("two")}, &other).ok());
  EXPECT_FALSE(other.already_registered());
  ASSERT_EQ(List().size(), 2u);
  EXPECT_EQ(List()[0].sha256(), other.corpus().sha256());
  EXPECT_EQ(ReadDocument(kZeroOne, 0).bytes, "zero") << "what experiments named stays";
}

TEST_F(CorporaServiceTest, BadStreamsAreRefusedAndLeaveNothing) {
  const std::pair<std::vector<v1::AddCorpusRequest>, const char*> bad[] = {
      {{}, "without a head"},
      {{Piece("x")}, "begins with a head"},
      {{Head("a@b", "text")}, "cannot be named \"a@b\""},
      {{Head("a", "csv")}, "kind \"csv\""},
      {{Head("a", "text"), Head("a", "text")}, "a second head"},
      {{Head("a", "text"), Piece("x", false)}, "ends within a document"},
      {{Head("a", "text")}, "holds no text"},
      {{Head("a", "text"), Piece("fine"), Piece("x\xC0")}, "document 1 of a: byte 1"},
      {{Head("a", "jsonl"), Piece("{}\n[]")}, "a:2: is not a JSON object"},
      {{Head("a", "text"), Piece(std::string((1 << 20) + 1, 'x'))}, "at most 1048576"}};
  for (const auto& [requests, why] : bad) {
    v1::AddCorpusResponse response;
    const grpc::Status status = Add(requests, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << why;
    EXPECT_THAT(status.error_message(), HasSubstr(why));
  }
  EXPECT_TRUE(List().empty());
  EXPECT_EQ(FilesLeft(), 0u);
}

TEST_F(CorporaServiceTest, AStreamThatIsCutLeavesNothing) {
  {
    grpc::ClientContext call;
    v1::AddCorpusResponse response;
    const auto writer = stub_->AddCorpus(&call, &response);
    ASSERT_TRUE(writer->Write(Head("books", "text")));
    ASSERT_TRUE(writer->Write(Piece("zero")));
    ASSERT_TRUE(Eventually([&] { return FilesLeft() == 1; }));
    call.TryCancel();
    EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  EXPECT_TRUE(Eventually([&] { return FilesLeft() == 0; }));
  EXPECT_TRUE(List().empty());
}

TEST_F(CorporaServiceTest, SaysWhatCannotBeRead) {
  v1::AddCorpusResponse response;
  ASSERT_TRUE(Add({Head("books", "text"), Piece("zero"), Piece("one")}, &response).ok());
  EXPECT_EQ(ReadDocument("0000", 0).status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(ReadDocument(kZeroOne, 2).status.error_code(), grpc::StatusCode::NOT_FOUND);
  const std::string content = folder_ + "/corpora/" + kZeroOne + "/content";
  std::ofstream(content) << "zerOone";
  Answer answer = ReadDocument(kZeroOne, 0);
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_EQ(answer.sha256, "") << "no end without the right hash";
  fs::remove(content);
  answer = ReadDocument(kZeroOne, 0);
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_THAT(answer.status.error_message(), HasSubstr("is gone"));
  EXPECT_THAT(List()[0].problem(), HasSubstr("is gone"));
  const auto catalogue = StoredCatalogue::Read(*store_, v1::Submission());
  EXPECT_THAT(catalogue->Corpora().at(0).problem, HasSubstr("is gone"));
}

TEST_F(CorporaServiceTest, AWorkerThatReadsNothingHoldsNoThreadForEver) {
  std::vector<v1::AddCorpusRequest> requests = {Head("long", "text")};
  for (int i = 0; i < 16; ++i) requests.push_back(Piece(std::string(1 << 20, 'x'), i == 15));
  v1::AddCorpusResponse response;
  ASSERT_TRUE(Add(requests, &response).ok());
  // More readers that go away than the pool has threads; afterwards it still serves.
  for (int i = 0; i < 4; ++i) {
    grpc::ClientContext call;
    v1::ReadCorpusRequest request;
    request.set_corpus(response.corpus().sha256());
    const auto reader = worker_stub_->ReadCorpus(&call, request);
    v1::CorpusBytes message;
    ASSERT_TRUE(reader->Read(&message));
    call.TryCancel();
    while (reader->Read(&message)) {
    }
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  EXPECT_EQ(ReadDocument(response.corpus().sha256(), 0).bytes.size(), size_t{16} << 20);
}

TEST_F(CorporaServiceTest, RegistersWhatLiesInTheFolderAndReadsItThere) {
  Put("moby.txt", "Call me Ishmael.");
  Put("lines.jsonl", "{\"text\":\"hi\"}\n\n{\"text\":\"there\"}\n");
  Put("notes.md", "no corpus");
  Put(".hidden.txt", "no corpus");
  Put("broken.jsonl", "{\n");
  fs::create_directory(folder_in_ + "/books");
  Put("books/b.txt", "one");
  Put("books/a.txt", "zero");
  fs::create_directory(folder_in_ + "/empty");
  RegisterFolder();
  std::vector<std::string> names;
  for (const v1::Corpus& corpus : List()) {
    names.push_back(corpus.name());
    EXPECT_EQ(corpus.place(), "corpora-dir");
    EXPECT_EQ(corpus.problem(), "");
  }
  EXPECT_THAT(names, ElementsAre("books", "lines", "moby"));
  EXPECT_EQ(List()[0].sha256(), kZeroOne);
  EXPECT_THAT(List()[1].text_fields(), ElementsAre("text"));
  EXPECT_EQ(ReadDocument(kZeroOne, 1).bytes, "one");
  EXPECT_EQ(ReadDocument(List()[1].sha256(), 1).bytes, "{\"text\":\"there\"}");
}

TEST_F(CorporaServiceTest, AFileThatChangedGetsANewRowAndTheOldOneIsLost) {
  Put("moby.txt", "Call me Ishmael.");
  RegisterFolder();
  const v1::Corpus old = List().at(0);
  RegisterFolder();
  ASSERT_EQ(List().size(), 1u);
  EXPECT_EQ(List()[0].SerializeAsString(), old.SerializeAsString()) << "unchanged: not touched";
  Put("moby.txt", "Call me Ahab, sir.");
  EXPECT_THAT(List()[0].problem(), HasSubstr("changed after it was registered"));
  RegisterFolder();
  const std::vector<v1::Corpus> listed = List();
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_NE(listed[0].sha256(), old.sha256());
  EXPECT_EQ(listed[0].problem(), "");
  EXPECT_EQ(listed[1].sha256(), old.sha256());
  const Answer answer = ReadDocument(old.sha256(), 0);
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_THAT(answer.status.error_message(), HasSubstr("moby.txt changed"));
  EXPECT_EQ(ReadDocument(listed[0].sha256(), 0).bytes, "Call me Ahab, sir.");
}

TEST_F(CorporaServiceTest, ACopyInTheDataDirectoryOutlivesTheFile) {
  Put("moby.txt", "Call me Ishmael.");
  RegisterFolder();
  v1::AddCorpusResponse response;
  ASSERT_TRUE(Add({Head("copy", "text"), Piece("Call me Ishmael.")}, &response).ok());
  fs::remove(folder_in_ + "/moby.txt");
  EXPECT_EQ(ReadDocument(response.corpus().sha256(), 0).bytes, "Call me Ishmael.");
}

TEST_F(CorporaServiceTest, ProvenanceDescribesTheCorporaOfASpec) {
  v1::AddCorpusResponse response;
  ASSERT_TRUE(Add({Head("books", "text"), Piece("zero"), Piece("one")}, &response).ok());
  v1::ExperimentSpec spec;
  auto* prompts = spec.mutable_slash_detection()->mutable_prompts()->mutable_corpus();
  prompts->set_name(std::string("books@") + kZeroOne);
  v1::Provenance provenance;
  const auto describe = [&] {
    provenance.clear_corpora();
    return store_->Read(
        [&](store::Connection& db) { return DescribeCorporaOf(db, store_->corpora(), spec, provenance); });
  };
  ASSERT_TRUE(describe().ok());
  ASSERT_EQ(provenance.corpora_size(), 1);
  EXPECT_EQ(provenance.corpora(0).SerializeAsString(), response.corpus().SerializeAsString());
  spec.mutable_slash_detection()
      ->mutable_prompts()
      ->mutable_needle()
      ->mutable_haystack()
      ->mutable_corpus()
      ->set_name("gone@1234");
  ASSERT_TRUE(describe().ok());
  ASSERT_EQ(provenance.corpora_size(), 1);
  EXPECT_EQ(provenance.corpora(0).name(), "gone");
  EXPECT_EQ(provenance.corpora(0).sha256(), "1234");
  EXPECT_THAT(provenance.corpora(0).problem(), HasSubstr("not registered any more"));
}

TEST_F(CorporaServiceTest, CountsWhatIsReadAndAdded) {
  v1::AddCorpusResponse response;
  ASSERT_TRUE(Add({Head("books", "text"), Piece("zero"), Piece("one")}, &response).ok());
  ReadDocument(kZeroOne, 0);
  std::map<std::string, double> counted;
  for (const auto& family : registry_->Collect()) {
    if (family.name.find("ropelab_corpus_") == 0) counted[family.name] = family.metric[0].counter.value;
  }
  EXPECT_EQ(counted["ropelab_corpus_bytes_added_total"], 7);
  EXPECT_EQ(counted["ropelab_corpus_bytes_read_total"], 4);
}

}  // namespace
}  // namespace ropelab::api
