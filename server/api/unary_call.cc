#include "server/api/unary_call.h"

#include "server/api/rpc_status.h"
#include "server/store/errors.h"
#include "spdlog/spdlog.h"

namespace ropelab::api {

void LogTrouble(const char* method, const absl::Status& status) {
  if (absl::IsInternal(status) || absl::IsDataLoss(status) || store::IsStoreTrouble(status)) {
    spdlog::error("{}: {}", method, status.ToString());
  }
}

void AnswerUnary(const ServiceContext& context, const char* method, grpc::ServerUnaryReactor* reactor,
                 const absl::Status& status, std::chrono::steady_clock::time_point started) {
  LogTrouble(method, status);
  const grpc::Status answer = ToGrpc(status);
  context.metrics->RpcEnded(method, answer.error_code(), std::chrono::steady_clock::now() - started);
  reactor->Finish(answer);
}

}  // namespace ropelab::api
