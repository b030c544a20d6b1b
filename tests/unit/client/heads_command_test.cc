// `ropelab heads` against a server in this process.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <unistd.h>

#include "client/run.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "ropelab/v1/head_scores.grpc.pb.h"

namespace ropelab::client {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class FakeScores : public v1::HeadScoreService::Service {
 public:
  v1::ImportHeadScoresRequest imported;
  v1::OverlapHeadScoresRequest asked;
  size_t largest = 0;

 private:
  static void Fill(v1::HeadScoreSet& set) {
    set.set_name("published");
    set.set_sha256("0123456789abcdef0123456789abcdef");
    set.set_heads(2);
  }
  grpc::Status ImportHeadScores(grpc::ServerContext*, grpc::ServerReader<v1::ImportHeadScoresRequest>* reader,
                                v1::ImportHeadScoresResponse* response) override {
    v1::ImportHeadScoresRequest piece;
    imported.Clear();
    while (reader->Read(&piece)) {
      if (!piece.name().empty()) {
        imported.set_name(piece.name());
        imported.set_user(piece.user());
      }
      imported.mutable_content()->append(piece.content());
      largest = std::max(largest, piece.content().size());
    }
    Fill(*response->mutable_set());
    response->set_already_registered(true);
    return grpc::Status::OK;
  }
  grpc::Status ListHeadScores(grpc::ServerContext*, const v1::ListHeadScoresRequest*,
                              v1::ListHeadScoresResponse* response) override {
    Fill(*response->add_sets());
    return grpc::Status::OK;
  }
  grpc::Status GetHeadScores(grpc::ServerContext*, const v1::GetHeadScoresRequest* request,
                             v1::GetHeadScoresResponse* response) override {
    if (request->name() != "published") {
      return {grpc::StatusCode::NOT_FOUND, "head scores: known: published"};
    }
    Fill(*response->mutable_set());
    v1::HeadScoreCount& count = *response->add_counts();
    count.set_threshold(0.1);
    count.set_heads(1);
    v1::HeadScoreMean& head = *response->add_heads();
    head.set_layer(3);
    head.set_head(11);
    head.set_mean(0.75);
    return grpc::Status::OK;
  }
  grpc::Status OverlapHeadScores(grpc::ServerContext*, const v1::OverlapHeadScoresRequest* request,
                                 v1::OverlapHeadScoresResponse* response) override {
    asked = *request;
    v1::HeadScoreOverlap& overlap = *response->add_overlaps();
    overlap.set_model("needle-tiny");
    overlap.set_top(4);
    overlap.set_shared(2);
    overlap.set_jaccard(2.0 / 6);
    overlap.add_heads("3-11");
    return grpc::Status::OK;
  }
};

class HeadsCommandTest : public testing::Test {
 protected:
  HeadsCommandTest() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&scores_);
    server_ = builder.BuildAndStart();
    folder_ = fs::temp_directory_path() / ("ropelab_heads_test_" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  ~HeadsCommandTest() override {
    server_->Shutdown();
    fs::remove_all(folder_);
  }
  int Ropelab(std::vector<std::string> arguments) {
    out_.str("");
    err_.str("");
    arguments.insert(arguments.begin(), {"--server", "127.0.0.1:" + std::to_string(port_)});
    Console console{out_, err_};
    return static_cast<int>(client::Run(arguments, console));
  }

  FakeScores scores_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
  fs::path folder_;
  std::stringstream out_, err_;
};

TEST_F(HeadsCommandTest, ImportSendsTheFileByteForByte) {
  const std::string content = "{\"0-0\": [1],\r\n \"0-1\": [0.5]}\n";
  std::ofstream(folder_ / "scores.json", std::ios::binary) << content;
  EXPECT_EQ(Ropelab({"heads", "import", "published", folder_ / "scores.json"}), 0) << err_.str();
  EXPECT_EQ(scores_.imported.name(), "published");
  EXPECT_EQ(scores_.imported.content(), content);
  EXPECT_FALSE(scores_.imported.user().empty());
  EXPECT_THAT(err_.str(), HasSubstr("nothing changed"));
  EXPECT_THAT(out_.str(), HasSubstr("0123456789abcdef0123456789abcdef"));
  EXPECT_EQ(Ropelab({"heads", "import", "published", folder_ / "scores.json", "--json"}), 0);
  EXPECT_EQ(nlohmann::json::parse(out_.str()).at("set").at("heads"), 2);
}

TEST_F(HeadsCommandTest, AFileOfPublishedSizeTravelsInPieces) {
  std::string content = "{\"0-0\": [0";
  while (content.size() < (3 << 20)) {
    content += ", 0.034482758620689655";
  }
  std::ofstream(folder_ / "scores.json", std::ios::binary) << (content += "]}");
  EXPECT_EQ(Ropelab({"heads", "import", "published", folder_ / "scores.json"}), 0) << err_.str();
  EXPECT_EQ(scores_.imported.name(), "published");
  EXPECT_TRUE(scores_.imported.content() == content);
  EXPECT_EQ(scores_.largest, size_t{1} << 20);
}

TEST_F(HeadsCommandTest, AFileThatCannotBeSentIsAnErrorOfUse) {
  EXPECT_EQ(Ropelab({"heads", "import", "published", folder_ / "absent.json"}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("cannot be opened"));
  std::ofstream(folder_ / "large.json") << std::string((32 << 20) + 1, ' ');
  EXPECT_EQ(Ropelab({"heads", "import", "published", folder_ / "large.json"}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("is larger than the 33554432 bytes"));
  EXPECT_EQ(Ropelab({"heads", "import", "published"}), 2);
}

TEST_F(HeadsCommandTest, ListIsWhatHeadsAloneDoes) {
  EXPECT_EQ(Ropelab({"heads"}), 0) << err_.str();
  EXPECT_THAT(out_.str(), HasSubstr("published"));
  EXPECT_EQ(Ropelab({"heads", "list", "--json"}), 0);
  EXPECT_EQ(nlohmann::json::parse(out_.str()).at(0).at("name"), "published");
}

TEST_F(HeadsCommandTest, ShowPrintsCountsAndTheBestHeads) {
  EXPECT_EQ(Ropelab({"heads", "show", "published"}), 0) << err_.str();
  EXPECT_THAT(out_.str(), testing::AllOf(HasSubstr("0.10"), HasSubstr("50.0%"), HasSubstr("L3H11")));
  EXPECT_EQ(Ropelab({"heads", "show", "other"}), 4);
  EXPECT_THAT(err_.str(), HasSubstr("known: published"));
}

TEST_F(HeadsCommandTest, OverlapAsksForMetricAndTop) {
  EXPECT_EQ(Ropelab({"heads", "overlap", "published", "e1", "--metric", "copy_wu", "--top", "4"}), 0)
      << err_.str();
  EXPECT_EQ(scores_.asked.experiment(), "e1");
  EXPECT_EQ(scores_.asked.metric(), v1::Metric::COPY_WU);
  EXPECT_EQ(scores_.asked.top(), 4);
  EXPECT_THAT(out_.str(), testing::AllOf(HasSubstr("0.333"), HasSubstr("L3H11")));
  EXPECT_EQ(Ropelab({"heads", "overlap", "published", "e1"}), 0);
  EXPECT_FALSE(scores_.asked.has_metric());
  EXPECT_FALSE(scores_.asked.has_top());
  EXPECT_EQ(Ropelab({"heads", "overlap", "published", "e1", "--metric", "argmin"}), 2);
  EXPECT_EQ(Ropelab({"heads", "overlap", "published", "e1", "--top", "0"}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("--top: \"0\" is not a whole number from 1\n"));
}

}  // namespace
}  // namespace ropelab::client
