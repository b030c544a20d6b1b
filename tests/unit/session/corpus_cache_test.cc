// Documents from a server that a test plays by hand.
#include "worker/session/corpus_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "common/sha256.h"
#include "worker/session/credentials.h"

namespace ropelab::session {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing::HasSubstr;

// Serves documents in pieces of 1000 bytes, after as many refusals as are asked for.
class CorpusServer : public v1::WorkerService::Service {
 public:
  CorpusServer() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~CorpusServer() override { server_->Shutdown(std::chrono::system_clock::now()); }

  grpc::Status ReadCorpus(grpc::ServerContext* context, const v1::ReadCorpusRequest* request,
                          grpc::ServerWriter<v1::CorpusBytes>* writer) override {
    ++calls;
    if (const auto found = context->client_metadata().find("authorization");
        found != context->client_metadata().end()) {
      with_token = std::string(found->second.data(), found->second.size()) == "Bearer secret";
    }
    if (refusals.fetch_sub(1) > 0) return refusal;
    while (silent && !context->IsCancelled()) std::this_thread::sleep_for(milliseconds(5));
    const auto found = documents.find(request->document());
    if (found == documents.end()) return {grpc::StatusCode::NOT_FOUND, "no such document"};
    const std::string& bytes = found->second;
    for (size_t at = 0; at < bytes.size(); at += 1000) {
      v1::CorpusBytes piece;
      piece.set_total(static_cast<int64_t>(bytes.size()));
      piece.set_data(bytes.substr(at, 1000));
      writer->Write(piece);
    }
    v1::CorpusBytes last;
    last.set_total(static_cast<int64_t>(bytes.size()));
    last.set_sha256(Sha256Hex(damaged.fetch_sub(1) > 0 ? "something else" : bytes));
    writer->Write(last);
    return grpc::Status::OK;
  }

  std::string target() const { return "127.0.0.1:" + std::to_string(port_); }

  std::map<int64_t, std::string> documents;
  std::atomic<int> calls{0}, refusals{0}, damaged{0};
  grpc::Status refusal{grpc::StatusCode::UNAVAILABLE, "busy"};
  std::atomic<bool> silent{false}, with_token{false};

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

const std::string kCorpus(64, 'a');

absl::Status GoOn(int64_t, int64_t) {
  return absl::OkStatus();
}

class CorpusCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) /
              ("corpora-" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(folder_);
    server_.documents = {{0, "zero"}, {1, std::string(4500, 'x')}, {2, ""}};
  }
  void TearDown() override { fs::remove_all(folder_); }

  CorpusCache Make(bool on_disk = true, int64_t limit = 1 << 20) {
    CorpusCache::Options options;
    if (on_disk) options.folder = folder_.string();
    options.folder_limit = options.memory_limit = limit;
    options.fetch.channel = [this] {
      return MakeChannel(server_.target(), grpc::InsecureChannelCredentials());
    };
    options.fetch.token = "secret";
    options.fetch.silence = milliseconds(300);
    options.fetch.give_up = give_up_;
    return CorpusCache(std::move(options));
  }
  fs::path File(int64_t document) const { return folder_ / kCorpus / std::to_string(document); }

  CorpusServer server_;
  fs::path folder_;
  milliseconds give_up_{10000};
};

TEST_F(CorpusCacheTest, FetchesADocumentOnceForAllProcessesOfAHost) {
  CorpusCache cache = Make();
  EXPECT_EQ(*cache.Document(kCorpus, 0, GoOn), "zero");
  EXPECT_EQ(*cache.Document(kCorpus, 1, GoOn), std::string(4500, 'x'));
  EXPECT_EQ(*cache.Document(kCorpus, 2, GoOn), "");
  EXPECT_EQ(server_.calls, 3);
  EXPECT_TRUE(server_.with_token);
  EXPECT_EQ(*cache.Document(kCorpus, 1, GoOn), std::string(4500, 'x'));
  CorpusCache other = Make();
  EXPECT_EQ(*other.Document(kCorpus, 0, GoOn), "zero");
  EXPECT_EQ(*other.Document(kCorpus, 2, GoOn), "");
  EXPECT_EQ(server_.calls, 3);
}

TEST_F(CorpusCacheTest, WithoutAFolderKeepsThemInMemory) {
  CorpusCache cache = Make(/*on_disk=*/false, /*limit=*/4600);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(cache.Document(kCorpus, 1, GoOn)->size(), 4500u);
  EXPECT_EQ(server_.calls, 1);
  EXPECT_EQ(*cache.Document(kCorpus, 0, GoOn), "zero");
  server_.documents[3] = std::string(200, 'y');
  EXPECT_EQ(cache.Document(kCorpus, 3, GoOn)->size(), 200u);  // the oldest, document 1, gives way
  EXPECT_EQ(*cache.Document(kCorpus, 0, GoOn), "zero");
  EXPECT_EQ(server_.calls, 3);
  EXPECT_EQ(cache.Document(kCorpus, 1, GoOn)->size(), 4500u);
  EXPECT_EQ(server_.calls, 4);
  EXPECT_FALSE(fs::exists(folder_));
}

TEST_F(CorpusCacheTest, ADamagedFileIsFetchedAnew) {
  CorpusCache cache = Make();
  ASSERT_TRUE(cache.Document(kCorpus, 0, GoOn).ok());
  {
    std::fstream file(File(0), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(66);
    file << 'X';
  }
  EXPECT_EQ(*cache.Document(kCorpus, 0, GoOn), "zero");
  fs::resize_file(File(0), 10);
  EXPECT_EQ(*cache.Document(kCorpus, 0, GoOn), "zero");
  EXPECT_EQ(server_.calls, 3);
}

TEST_F(CorpusCacheTest, AnotherDocumentsFileInItsPlaceIsFetchedAnew) {
  CorpusCache cache = Make();
  ASSERT_TRUE(cache.Document(kCorpus, 0, GoOn).ok());
  ASSERT_TRUE(cache.Document(kCorpus, 1, GoOn).ok());
  fs::copy_file(File(1), File(0), fs::copy_options::overwrite_existing);
  EXPECT_EQ(*cache.Document(kCorpus, 0, GoOn), "zero");
  const std::string other(64, 'b');
  fs::create_directories(folder_ / other);
  fs::copy_file(File(1), folder_ / other / "0");
  EXPECT_EQ(*cache.Document(other, 0, GoOn), "zero");
  EXPECT_EQ(server_.calls, 4);
}

TEST_F(CorpusCacheTest, WhatIsNoFileInADocumentsPlaceCostsTimeAlone) {
  fs::create_directories(File(0) / "a folder with something in it");
  ASSERT_EQ(mkfifo(File(1).c_str(), 0600), 0);
  CorpusCache cache = Make();
  EXPECT_EQ(*cache.Document(kCorpus, 0, GoOn), "zero");
  EXPECT_EQ(cache.Document(kCorpus, 1, GoOn)->size(), 4500u);
  EXPECT_EQ(cache.Document(kCorpus, 1, GoOn)->size(), 4500u);
  EXPECT_EQ(server_.calls, 2);
}

TEST_F(CorpusCacheTest, TheOldestFilesGiveWay) {
  CorpusCache cache = Make(true, 1000);
  for (int64_t d = 0; d < 12; ++d) {
    server_.documents[d] = std::string(200, static_cast<char>('a' + d));
    ASSERT_TRUE(cache.Document(kCorpus, d, GoOn).ok());
    std::this_thread::sleep_for(milliseconds(2));
    ASSERT_TRUE(cache.Document(kCorpus, 0, GoOn).ok());  // always in use
    std::this_thread::sleep_for(milliseconds(2));
  }
  int64_t bytes = 0;
  for (const auto& file : fs::recursive_directory_iterator(folder_)) {
    if (file.is_regular_file()) bytes += static_cast<int64_t>(file.file_size());
  }
  EXPECT_LE(bytes, 1000);
  EXPECT_TRUE(fs::exists(File(0)));
  EXPECT_TRUE(fs::exists(File(11)));
  EXPECT_FALSE(fs::exists(File(1)));
}

TEST_F(CorpusCacheTest, AFolderThatCannotBeWrittenCostsTimeAlone) {
  { std::ofstream(folder_) << "in the way"; }
  CorpusCache cache = Make();
  EXPECT_EQ(*cache.Document(kCorpus, 0, GoOn), "zero");
  EXPECT_EQ(*cache.Document(kCorpus, 0, GoOn), "zero");
  EXPECT_EQ(server_.calls, 2);
}

TEST_F(CorpusCacheTest, TriesAgainWhileTheServerIsBusy) {
  server_.refusals = 3;
  CorpusCache cache = Make();
  EXPECT_EQ(*cache.Document(kCorpus, 0, GoOn), "zero");
  EXPECT_EQ(server_.calls, 4);
}

TEST_F(CorpusCacheTest, BytesThatDoNotHaveTheirHashAreFetchedAnew) {
  server_.damaged = 1;
  CorpusCache cache = Make();
  EXPECT_EQ(*cache.Document(kCorpus, 0, GoOn), "zero");
  EXPECT_EQ(server_.calls, 2);
}

TEST_F(CorpusCacheTest, GivesUpAfterATime) {
  server_.refusals = 1000;
  give_up_ = milliseconds(300);
  CorpusCache cache = Make();
  const absl::Status status = cache.Document(kCorpus, 0, GoOn).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(std::string(status.message()), "document 0 of corpus aaaaaaaaaaaaaaaa: busy");
}

TEST_F(CorpusCacheTest, WhatIsGoneOrDamagedThereIsNotAskedForAgain) {
  CorpusCache cache = Make();
  const absl::Status gone = cache.Document(kCorpus, 7, GoOn).status();
  EXPECT_EQ(gone.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(gone.message()),
              HasSubstr("document 7 of corpus aaaaaaaaaaaaaaaa: no such document"));
  server_.refusals = 1;
  server_.refusal = {grpc::StatusCode::DATA_LOSS, "the file changed"};
  EXPECT_EQ(cache.Document(kCorpus, 0, GoOn).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(server_.calls, 2);
}

TEST_F(CorpusCacheTest, ASilentServerIsCutAndAskedAgain) {
  server_.silent = true;
  CorpusCache cache = Make();
  std::thread wakes([this] {
    std::this_thread::sleep_for(milliseconds(700));
    server_.silent = false;
  });
  EXPECT_EQ(*cache.Document(kCorpus, 0, GoOn), "zero");
  EXPECT_GE(server_.calls, 2);
  wakes.join();
}

TEST_F(CorpusCacheTest, StopsWithinAMomentWhenTheLeaseIsGone) {
  server_.silent = true;
  CorpusCache cache = Make();
  int looks = 0;
  const auto began = std::chrono::steady_clock::now();
  const absl::Status status =
      cache
          .Document(kCorpus, 0,
                    [&](int64_t, int64_t) {
                      return ++looks == 2 ? absl::CancelledError("gone") : absl::OkStatus();
                    })
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_LT(std::chrono::steady_clock::now() - began, milliseconds(280));
}

TEST_F(CorpusCacheTest, RefusesNamesThatAreNoHash) {
  CorpusCache cache = Make();
  for (const std::string& name : {std::string("../x"), std::string(64, 'A'), std::string()}) {
    EXPECT_EQ(cache.Document(name, 0, GoOn).status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(cache.Document(kCorpus, -1, GoOn).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(server_.calls, 0);
}

}  // namespace
}  // namespace ropelab::session
