// Texts that are not UTF-8 stop before they travel, and are named.
#include "client/message_text.h"

#include "client/connection.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ropelab/v1/experiment_service.pb.h"

namespace ropelab::client {
namespace {

using testing::HasSubstr;

TEST(MessageText, NamesTheFirstTextThatIsNotUtf8) {
  v1::Submission submission;
  v1::ExperimentSpec& spec = *submission.mutable_study()->add_experiments();
  spec.set_name("caf\xC3\xA9");
  spec.add_tags("one");
  EXPECT_TRUE(CheckTexts(submission).ok());
  spec.mutable_retrieval_detection()->mutable_needles()->set_needle_text("\xFF CODE");
  EXPECT_EQ(CheckTexts(submission),
            absl::InvalidArgumentError("study.experiments[0].retrieval_detection.needles.needle_text: \"? "
                                       "CODE\" is not UTF-8; write it as UTF-8"));
  spec.add_tags("\xC3");
  EXPECT_THAT(std::string(CheckTexts(submission).message()), HasSubstr("experiments[0].tags[1]"));
}

TEST(MessageText, ACallWithSuchATextIsNotMade) {
  Connection connection("127.0.0.1:1", "");
  v1::SubmitRequest request;
  request.set_user("\xFE");
  v1::SubmitResponse response;
  const absl::Status status =
      connection.Call(&Connection::Stub::Submit, request, &response, std::chrono::seconds(5));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kUsage);
}

}  // namespace
}  // namespace ropelab::client
