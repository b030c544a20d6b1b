// Registered head scores by their handlers, on a real store.
#include "server/api/head_score_sets.h"

#include "gmock/gmock.h"
#include "server/api/catalogue.h"
#include "server/api/head_score_service.h"
#include "tests/unit/api/experiment_service_fixture.h"

namespace ropelab::api {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class HeadScoreSetsTest : public ExperimentServiceTest {
 protected:
  ServiceContext Context() {
    ServiceContext context;
    context.store = store_.get();
    context.coordinator = coordinator_.get();
    context.requests = requests_.get();
    context.metrics = metrics_.get();
    context.clock = &Clock::Real();
    return context;
  }
  absl::Status Import(const std::string& name, const std::string& content,
                      v1::ImportHeadScoresResponse* response = nullptr) {
    v1::ImportHeadScoresRequest request;
    request.set_name(name);
    request.set_content(content);
    request.set_user("ada");
    v1::ImportHeadScoresResponse ignored;
    return ImportHeadScores(Context(), request, response == nullptr ? ignored : *response);
  }
};

TEST_F(HeadScoreSetsTest, AreDescribedAndCounted) {
  v1::ImportHeadScoresResponse imported;
  ASSERT_TRUE(Import("published", R"({"1-2": [0.25, 0.75], "0-7": [0.1], "0-0": [0.5]})", &imported).ok());
  EXPECT_FALSE(imported.already_registered());
  EXPECT_EQ(imported.set().heads(), 3);
  EXPECT_EQ(imported.set().scores(), 4);
  EXPECT_EQ(imported.set().largest_layer(), 1);
  EXPECT_EQ(imported.set().largest_head(), 7);
  EXPECT_EQ(imported.set().owner(), "ada");
  v1::GetHeadScoresRequest request;
  request.set_name("published@" + imported.set().sha256().substr(0, 8));
  v1::GetHeadScoresResponse shown;
  ASSERT_TRUE(GetHeadScores(Context(), request, shown).ok());
  ASSERT_EQ(shown.counts_size(), 10);
  EXPECT_EQ(shown.counts(1).threshold(), 0.1);
  EXPECT_EQ(shown.counts(1).heads(), 3);
  EXPECT_EQ(shown.counts(9).heads(), 2);
  EXPECT_EQ(shown.heads(0).layer(), 0);  // 0.5 twice: by layer
  EXPECT_EQ(shown.heads(1).layer(), 1);
}

TEST_F(HeadScoreSetsTest, TheSameAgainIsNoErrorAndOtherContentNeedsItsHash) {
  ASSERT_TRUE(Import("published", R"({"0-0": [0.5]})").ok());
  v1::ImportHeadScoresResponse again;
  ASSERT_TRUE(Import("published", R"({"0-0": [0.5]})", &again).ok());
  EXPECT_TRUE(again.already_registered());
  ASSERT_TRUE(Import("published", R"({"0-0": [0.25]})").ok());
  v1::ListHeadScoresResponse listed;
  ASSERT_TRUE(ListHeadScores(Context(), {}, listed).ok());
  EXPECT_EQ(listed.sets_size(), 2);
  v1::GetHeadScoresRequest request;
  request.set_name("published");
  v1::GetHeadScoresResponse shown;
  const absl::Status status = GetHeadScores(Context(), request, shown);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("the name stands for several contents"));
}

TEST_F(HeadScoreSetsTest, WhatIsNoneIsRefusedAndKeepsNothing) {
  EXPECT_THAT(Import("a/b", R"({"0-0": [0.5]})").message(), HasSubstr("cannot be named \"a/b\""));
  EXPECT_THAT(Import("published", R"({"0": [0.5]})").message(),
              HasSubstr("the file for head scores published: \"0\": the key is no \"layer-head\""));
  EXPECT_EQ(Import("published", "").code(), absl::StatusCode::kInvalidArgument);
  v1::ListHeadScoresResponse listed;
  ASSERT_TRUE(ListHeadScores(Context(), {}, listed).ok());
  EXPECT_EQ(listed.sets_size(), 0);
}

TEST_F(HeadScoreSetsTest, OnlyASubmissionThatNamesSomeReadsThem) {
  ASSERT_TRUE(Import("published", R"({"0-0": [0.5]})").ok());
  const auto scores = [&](const std::string& submission) {
    const auto catalogue = StoredCatalogue::Read(*store_, Parse(submission));
    EXPECT_TRUE(catalogue.ok()) << catalogue.status();
    return catalogue->Scores().size();
  };
  EXPECT_EQ(scores("experiment { rope_geometry {} }"), 0u);
  EXPECT_EQ(scores("experiment { low_rank { heads { imported { name: 'published' top: 1 } } } }"), 1u);
}

TEST_F(HeadScoreSetsTest, AnOverlapNeedsADetectionThatIsDone) {
  ASSERT_TRUE(Import("published", R"({"0-0": [0.5]})").ok());
  v1::OverlapHeadScoresRequest request;
  request.set_name("published");
  request.set_experiment(SubmitGeometry("r"));
  v1::OverlapHeadScoresResponse response;
  EXPECT_THAT(OverlapHeadScores(Context(), request, response).message(),
              HasSubstr("is a rope_geometry, which ranks no retrieval heads"));
  request.set_experiment("e77");
  EXPECT_EQ(OverlapHeadScores(Context(), request, response).code(), absl::StatusCode::kNotFound);
  request.set_top(2);
  EXPECT_THAT(OverlapHeadScores(Context(), request, response).message(), HasSubstr("top 2: 1 to 1"));
}

TEST_F(HeadScoreSetsTest, TheServiceAnswersOverAChannel) {
  const auto service = MakeHeadScoreService(Context());
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(service.get());
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const auto stub = v1::HeadScoreService::NewStub(
      grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()));
  v1::ImportHeadScoresResponse response;
  const auto import = [&](const std::vector<std::string>& pieces) {
    const auto call = Call();
    const auto writer = stub->ImportHeadScores(call.get(), &response);
    for (size_t i = 0; i < pieces.size(); ++i) {
      v1::ImportHeadScoresRequest request;
      request.set_name(i == 0 ? "published" : "");
      request.set_content(pieces[i]);
      writer->Write(request);
    }
    writer->WritesDone();
    return writer->Finish();
  };
  EXPECT_EQ(import({R"({"0-0": []})"}).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(import({}).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  const grpc::Status taken = import({R"({"0-0)", R"(": [1)", "]}"});
  EXPECT_TRUE(taken.ok()) << taken.error_message();
  EXPECT_EQ(response.set().heads(), 1);
  const grpc::Status large = import(std::vector<std::string>(33, std::string(1 << 20, ' ')));
  EXPECT_EQ(large.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(large.error_message(), HasSubstr("has more than 33554432 bytes"));
  server->Shutdown();
}

}  // namespace
}  // namespace ropelab::api
