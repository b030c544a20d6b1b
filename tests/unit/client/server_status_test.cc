#include "client/server_status.h"

#include "client/connection.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ropelab::client {
namespace {

using grpc::StatusCode;

absl::Status Answer(StatusCode code, const std::string& message = "why", const std::string& details = "") {
  return FromServer(grpc::Status(code, message, details), "host:1");
}

TEST(ServerStatus, MapsEveryAnswerToItsExitCode) {
  EXPECT_EQ(ExitCodeOf(absl::OkStatus()), ExitCode::kDone);
  for (StatusCode code : {StatusCode::UNAVAILABLE, StatusCode::DEADLINE_EXCEEDED, StatusCode::CANCELLED}) {
    EXPECT_EQ(ExitCodeOf(Answer(code)), ExitCode::kUnreachable) << code;
  }
  for (StatusCode code :
       {StatusCode::INVALID_ARGUMENT, StatusCode::NOT_FOUND, StatusCode::ALREADY_EXISTS,
        StatusCode::FAILED_PRECONDITION, StatusCode::PERMISSION_DENIED, StatusCode::UNAUTHENTICATED,
        StatusCode::RESOURCE_EXHAUSTED, StatusCode::UNIMPLEMENTED, StatusCode::INTERNAL}) {
    EXPECT_EQ(ExitCodeOf(Answer(code)), ExitCode::kRefused) << code;
  }
}

TEST(ServerStatus, TakesAStatusThatIsNotTheServersForUsage) {
  EXPECT_EQ(ExitCodeOf(absl::InvalidArgumentError("x")), ExitCode::kUsage);
  EXPECT_EQ(ExitCodeOf(absl::NotFoundError("x")), ExitCode::kUsage);
}

TEST(ServerStatus, SaysWhichServerDoesNotAnswerAndHowToNameAnother) {
  EXPECT_EQ(RenderError(Answer(StatusCode::UNAVAILABLE)),
            "ropelab: no server answers at host:1: is `ropelab up` or ropelab-server running? (--server or "
            "ROPELAB_SERVER names "
            "another)\n");
}

TEST(ServerStatus, KeepsTheWordsOfAServerThatIsThereAndCannot) {
  const absl::Status stopping = Answer(StatusCode::UNAVAILABLE, "it is stopping", "ropelab.from-server");
  EXPECT_EQ(RenderError(stopping), "ropelab: the server at host:1 says: it is stopping\n");
  EXPECT_TRUE(IsUnreachable(stopping)) << "trying again may help";
  const absl::Status trouble = Answer(StatusCode::INTERNAL, "the server cannot read or write its data: disk");
  EXPECT_EQ(RenderError(trouble), "ropelab: the server cannot read or write its data: disk\n");
  EXPECT_EQ(ExitCodeOf(trouble), ExitCode::kRefused);
}

TEST(ServerStatus, WritesEachFieldProblemOnALine) {
  v1::ValidateResponse response;
  auto* typed = response.add_problems();
  typed->set_field("slash_detection.threshold");
  typed->set_value("-1");
  typed->set_remedy("a number from 0 to 1");
  auto* missing = response.add_problems();
  missing->set_field("model");
  missing->set_remedy("name a model: stories260K");
  const absl::Status status = Answer(StatusCode::INVALID_ARGUMENT, "two", response.SerializeAsString());
  EXPECT_EQ(RenderError(status),
            "ropelab: the server refuses the spec for 2 reasons:\n"
            "slash_detection.threshold: \"-1\": a number from 0 to 1\n"
            "model: name a model: stories260K\n");
}

TEST(ServerStatus, KeepsEscapeSequencesFromTheTerminal) {
  EXPECT_EQ(RenderError(Answer(StatusCode::NOT_FOUND, "no \x1b[2Jexperiment\nknown: 1")),
            "ropelab: no  [2Jexperiment\nknown: 1\n");
}

TEST(CheckAddress, TakesAHostAndAPortAndNothingElse) {
  EXPECT_TRUE(CheckAddress("127.0.0.1:7400").ok());
  EXPECT_TRUE(CheckAddress("[::1]:7400").ok());
  for (const char* wrong :
       {"", "host", "host:", ":7400", "host:0", "host:65536", "host:x", "http://host:80"}) {
    EXPECT_FALSE(CheckAddress(wrong).ok()) << wrong;
  }
}

TEST(CleanToken, CutsTheLineEndAndRefusesWhatCannotTravel) {
  EXPECT_EQ(*CleanToken("f", "abc\n"), "abc");
  EXPECT_FALSE(CleanToken("f", " \n").ok());
  EXPECT_FALSE(CleanToken("f", "a\nb").ok());
}

}  // namespace
}  // namespace ropelab::client
