#include "server/api/rpc_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "server/store/errors.h"

namespace ropelab::api {
namespace {

using testing::HasSubstr;

TEST(RpcStatus, AServerThatStopsSaysThatItIsTheServerThatSpeaks) {
  const grpc::Status answer = ToGrpc(absl::UnavailableError("the server is stopping; try again"));
  EXPECT_EQ(answer.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(answer.error_message(), "the server is stopping; try again");
  EXPECT_EQ(answer.error_details(), "ropelab.from-server");
}

TEST(RpcStatus, TroubleOfItsDiskIsNotAServerThatCannotBeReached) {
  const absl::Status trouble = store::FileError("reading", "/d/ropelab.db", EIO);
  const grpc::Status answer = ToGrpc(trouble);
  EXPECT_EQ(answer.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_THAT(answer.error_message(), HasSubstr("reading /d/ropelab.db: Input/output error"));
  EXPECT_THAT(answer.error_message(), HasSubstr("try again"));
  const grpc::Status busy = ToGrpc(store::SqliteError(5, "database is locked"));  // SQLITE_BUSY
  EXPECT_EQ(busy.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_THAT(busy.error_message(), HasSubstr("database is locked"));
}

TEST(RpcStatus, AWorkerWaitsForADiskAsForAServer) {
  const grpc::Status answer = ToGrpc(ForWorker(store::FileError("reading", "/d/c", EIO)));
  EXPECT_EQ(answer.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(answer.error_message(), HasSubstr("reading /d/c"));
  EXPECT_EQ(ToGrpc(ForWorker(absl::NotFoundError("x"))).error_code(), grpc::StatusCode::NOT_FOUND);
}

}  // namespace
}  // namespace ropelab::api
