#include <sstream>
#include <thread>

#include "client/run.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/client/fake_server.h"

namespace ropelab::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A study of three: e1 is done, e2 and e3 are not.
class CancelTest : public testing::Test {
 protected:
  CancelTest() {
    server_.watch = [this](grpc::ServerContext* context, grpc::ServerWriter<v1::WatchEvent>* writer) {
      writer->Write(event_);
      while (!context->IsCancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return grpc::Status::CANCELLED;
    };
    server_.cancel = [this](const v1::CancelRequest& request, v1::Experiment* response) {
      asked_.push_back(request.id());
      response->set_id(request.id());
      response->set_state("cancelled");
      return request.id() == ended_
                 ? grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "experiment is done already")
                 : grpc::Status::OK;
    };
    Add("e1", "done");
    Add("e2", "running");
    Add("e3", "waiting");
  }
  void Add(const std::string& id, const std::string& state) {
    v1::Experiment* experiment = event_.add_experiments();
    experiment->set_id(id);
    experiment->set_state(state);
  }
  int Ropelab(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--server", server_.address()});
    Console console{out_, err_};
    return static_cast<int>(client::Run(arguments, console));
  }

  v1::WatchEvent event_;
  std::vector<std::string> asked_;
  std::string ended_;
  FakeServer server_;
  std::ostringstream out_, err_;
};

TEST_F(CancelTest, AStudysExperimentsThatHaveNotEndedAreCancelledTheLastFirst) {
  EXPECT_EQ(Ropelab({"cancel", "s1"}), 0) << err_.str();
  EXPECT_THAT(asked_, ElementsAre("e3", "e2"));
  EXPECT_EQ(out_.str(), "study s1: cancelled 2 of 3 experiments: e2, e3; the others had ended\n");
}

TEST_F(CancelTest, OneThatEndsInBetweenIsNotCounted) {
  ended_ = "e2";
  EXPECT_EQ(Ropelab({"cancel", "s1"}), 0) << err_.str();
  EXPECT_EQ(out_.str(), "study s1: cancelled 1 of 3 experiments: e3; the others had ended\n");
}

TEST_F(CancelTest, AStudyThatHasEndedIsSaidToHave) {
  event_.Clear();
  Add("e1", "done");
  Add("e2", "failed");
  EXPECT_EQ(Ropelab({"cancel", "s1"}), 0) << err_.str();
  EXPECT_EQ(out_.str(), "study s1: nothing to cancel, all 2 experiments had ended\n");
  EXPECT_TRUE(asked_.empty());
}

TEST_F(CancelTest, AStudyThatThereIsNotIsRefusedInTheServersWords) {
  server_.watch = [](grpc::ServerContext*, grpc::ServerWriter<v1::WatchEvent>*) {
    return grpc::Status(grpc::StatusCode::NOT_FOUND, "study s9 does not exist");
  };
  EXPECT_EQ(Ropelab({"cancel", "s9"}), 4);
  EXPECT_THAT(err_.str(), HasSubstr("study s9 does not exist"));
}

TEST_F(CancelTest, WritesWhatItCancelledAsAnArray) {
  EXPECT_EQ(Ropelab({"cancel", "s1", "--json"}), 0) << err_.str();
  EXPECT_EQ(out_.str().front(), '[');
  EXPECT_THAT(out_.str(), HasSubstr("\"id\": \"e3\""));
}

TEST_F(CancelTest, AnExperimentAloneIsShownAsItIsThen) {
  EXPECT_EQ(Ropelab({"cancel", "e2"}), 0) << err_.str();
  EXPECT_THAT(asked_, ElementsAre("e2"));
  EXPECT_THAT(out_.str(), HasSubstr("cancelled"));
}

}  // namespace
}  // namespace ropelab::client
