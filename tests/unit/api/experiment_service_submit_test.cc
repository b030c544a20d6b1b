#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "tests/unit/api/experiment_service_fixture.h"

namespace ropelab::api {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

v1::ValidateResponse Problems(const grpc::Status& status) {
  v1::ValidateResponse problems;
  EXPECT_TRUE(problems.ParseFromString(status.error_details()));
  return problems;
}

TEST_F(ExperimentServiceTest, SubmitStoresTheExperimentAndTellsTheCoordinator) {
  v1::SubmitResponse response;
  const grpc::Status status =
      Submit("r1", Parse("experiment { name: \"clock\" rope_geometry {} }"), &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.study_id(), "");
  EXPECT_FALSE(response.already_submitted());
  ASSERT_THAT(response.experiment_ids(), ElementsAre("e1"));
  EXPECT_THAT(coordinator_->submitted(), ElementsAre(1));
}

TEST_F(ExperimentServiceTest, TheSameRequestIdGivesTheSameExperiment) {
  v1::SubmitResponse first, second;
  const v1::Submission spec = Parse("experiment { name: \"clock\" rope_geometry {} }");
  ASSERT_TRUE(Submit("r1", spec, &first).ok());
  ASSERT_TRUE(Submit("r1", spec, &second).ok());
  EXPECT_EQ(first.experiment_ids(0), second.experiment_ids(0));
  EXPECT_TRUE(second.already_submitted());
  EXPECT_THAT(coordinator_->submitted(), ElementsAre(1));
}

TEST_F(ExperimentServiceTest, ARequestIdUsedForAnotherSpecIsRefused) {
  v1::SubmitResponse response;
  ASSERT_TRUE(Submit("r1", Parse("experiment { name: \"a\" rope_geometry {} }"), &response).ok());
  const grpc::Status status =
      Submit("r1", Parse("experiment { name: \"b\" rope_geometry { head_dim: 32 } }"), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ALREADY_EXISTS) << status.error_message();
}

TEST_F(ExperimentServiceTest, SubmitNeedsARequestId) {
  v1::SubmitResponse response;
  const grpc::Status status = Submit("", Parse("experiment { rope_geometry {} }"), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("request_id"));
}

TEST_F(ExperimentServiceTest, AStudyGetsAnIdOfItsOwnAndOneForEachExperiment) {
  v1::SubmitResponse response;
  const grpc::Status status =
      Submit("r1",
             Parse("study { name: \"clocks\" experiments { name: \"a\" rope_geometry {} } "
                   "experiments { name: \"b\" rope_geometry { head_dim: 32 } } }"),
             &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.study_id(), "s1");
  EXPECT_THAT(response.experiment_ids(), ElementsAre("e1", "e2"));
  EXPECT_THAT(coordinator_->submitted(), ElementsAre(1, 2));
}

TEST_F(ExperimentServiceTest, AnUnknownModelIsRefusedByFieldAndName) {
  v1::SubmitResponse response;
  const grpc::Status status =
      Submit("r1",
             Parse("experiment { name: \"x\" model: \"no-such-model\" slash_detection { "
                   "prompts { uniform_tokens { count: 8 tokens: 64 } } } }"),
             &response);
  ASSERT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("model: value \"no-such-model\": "));
  const v1::ValidateResponse problems = Problems(status);
  ASSERT_GE(problems.problems_size(), 1);
  EXPECT_EQ(problems.problems(0).field(), "model");
  EXPECT_EQ(problems.problems(0).value(), "no-such-model");
}

TEST_F(ExperimentServiceTest, ABinarySpecWithAnUnknownFieldIsRefused) {
  v1::Submission submission = Parse("experiment { name: \"x\" rope_geometry {} }");
  v1::RopeGeometry* geometry = submission.mutable_experiment()->mutable_rope_geometry();
  geometry->GetReflection()->MutableUnknownFields(geometry)->AddVarint(1000, 7);
  v1::SubmitResponse response;
  const grpc::Status status = Submit("r1", submission, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("rope_geometry"));
  EXPECT_THAT(status.error_message(), HasSubstr("1000"));
  EXPECT_TRUE(coordinator_->submitted().empty());
}

TEST_F(ExperimentServiceTest, ManyProblemsFitTheMetadataAndSayHowManyAreLeft) {
  v1::Submission submission;
  for (int i = 0; i < 200; ++i) {
    v1::ExperimentSpec* experiment = submission.mutable_study()->add_experiments();
    experiment->set_name(absl::StrCat("n", i));
    experiment->set_model("no-such-model");
    experiment->mutable_slash_detection();
  }
  v1::SubmitResponse response;
  const grpc::Status status = Submit("r1", submission, &response);
  ASSERT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
  EXPECT_THAT(status.error_message(), HasSubstr("more; `ropelab validate` shows all"));
  const v1::ValidateResponse problems = Problems(status);
  ASSERT_GE(problems.problems_size(), 2);
  EXPECT_THAT(problems.problems().rbegin()->remedy(), HasSubstr("more; `ropelab validate` shows all"));
}

TEST_F(ExperimentServiceTest, ValidateGivesProblemsInItsAnswerAndStoresNothing) {
  v1::ValidateRequest request;
  *request.mutable_submission() = Parse("experiment { name: \"x\" rope_geometry { head_dim: 3 } }");
  v1::ValidateResponse response;
  ASSERT_TRUE(stub_->Validate(Call().get(), request, &response).ok());
  ASSERT_EQ(response.problems_size(), 1);
  EXPECT_EQ(response.problems(0).field(), "rope_geometry.head_dim");
  EXPECT_EQ(response.problems(0).value(), "3");
  EXPECT_TRUE(response.estimates().empty());

  *request.mutable_submission() = Parse("experiment { name: \"x\" rope_geometry {} }");
  ASSERT_TRUE(stub_->Validate(Call().get(), request, &response).ok());
  EXPECT_TRUE(response.problems().empty());
  ASSERT_EQ(response.estimates_size(), 1);
  EXPECT_EQ(response.estimates(0).kind(), "rope_geometry");
  EXPECT_EQ(response.estimates(0).tasks(), 1);
  v1::ListResponse list;
  ASSERT_TRUE(stub_->List(Call().get(), {}, &list).ok());
  EXPECT_TRUE(list.experiments().empty());
}

}  // namespace
}  // namespace ropelab::api
