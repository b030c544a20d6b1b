// Experiments of a study that take their heads from each other.
#include <google/protobuf/text_format.h>

#include <future>

#include "absl/strings/str_cat.h"
#include "server/api/experiment_service_submit.h"
#include "server/api/ids.h"
#include "tests/unit/api/coordinator_fixture.h"

namespace ropelab::api {
namespace {

// No head reaches 0.9, so that no map is asked of the scripted worker.
constexpr char kDetect[] =
    "experiments { name: 'detect' slash_detection { prompts { uniform_tokens { count: 8 tokens: 16 } } "
    "threshold: "
    "0.9 } } ";
constexpr char kMaps[] =
    "experiments { name: 'maps' slash_detection { prompts { uniform_tokens { count: 8 tokens: 16 } } maps { "
    "heads { "
    "slash_dominant { experiment: 'detect' } } } } } ";

class CoordinatorSourcesTest : public CoordinatorTest {
 protected:
  std::vector<int64_t> SubmitStudy(const std::string& experiments) {
    v1::SubmitRequest request;
    request.set_request_id("study");
    request.set_user("ada");
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        absl::StrCat("study { name: 's' model: 'tiny' ", experiments, "}"), request.mutable_submission()));
    ServiceContext context;
    context.store = store_.get();
    context.coordinator = coordinator_.get();
    context.metrics = metrics_.get();
    context.clock = &Clock::Real();
    v1::SubmitResponse response;
    const absl::Status status = api::Submit(context, request, response);
    EXPECT_TRUE(status.ok()) << status;
    std::vector<int64_t> ids;
    for (const std::string& id : response.experiment_ids()) {
      ids.push_back(ParseId(id)->number);
    }
    return ids;
  }
  void Cancel(int64_t experiment) {
    std::promise<absl::Status> done;
    coordinator_->Cancel(experiment, "ada", [&](absl::Status status) { done.set_value(std::move(status)); });
    EXPECT_TRUE(done.get_future().get().ok());
  }
};

TEST_F(CoordinatorSourcesTest, OneWaitsUntilTheOtherIsDone) {
  FakeWorker worker = ConnectedWorker("w");
  const std::vector<int64_t> ids = SubmitStudy(absl::StrCat(kMaps, kDetect));
  ASSERT_EQ(ids.size(), 2u);
  const std::string reason = absl::StrCat("waiting for experiment detect (e", ids[1], ")");
  EXPECT_TRUE(Eventually([&] { return coordinator_->Live(ids[0]).reason == reason; }));
  EXPECT_EQ(Row(ids[0]).state, "waiting");
  FinishUntilFinal(worker, ids[1]);
  EXPECT_EQ(Row(ids[1]).state, "done");
  FinishUntilFinal(worker, ids[0]);
  EXPECT_EQ(Row(ids[0]).state, "done") << Row(ids[0]).reason;
}

TEST_F(CoordinatorSourcesTest, OneFailsWithTheOther) {
  FakeWorker worker = ConnectedWorker("w");
  const std::vector<int64_t> ids = SubmitStudy(absl::StrCat(kDetect, kMaps));
  Cancel(ids[0]);
  ASSERT_TRUE(Reaches(ids[1], "failed"));
  EXPECT_EQ(Row(ids[1]).reason, absl::StrCat("experiment detect (e", ids[0],
                                             "), from which its heads come, is cancelled: cancelled by ada"));
}

TEST_F(CoordinatorSourcesTest, AServerThatStartsTakesTheWaitUpAgain) {
  std::vector<int64_t> ids;
  {
    FakeWorker worker = ConnectedWorker("w");
    ids = SubmitStudy(absl::StrCat(kDetect, kMaps));
  }
  ASSERT_EQ(ids.size(), 2u);
  StopServer();
  StartServer();
  FakeWorker worker = ConnectedWorker("w", "i2");
  FinishUntilFinal(worker, ids[1]);
  EXPECT_EQ(Row(ids[1]).state, "done") << Row(ids[1]).reason;
}

}  // namespace
}  // namespace ropelab::api
