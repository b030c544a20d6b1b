#include "server/api/head_score_service.h"

#include <chrono>

#include "grpcpp/support/server_callback.h"
#include "server/api/head_score_sets.h"
#include "server/api/rpc_status.h"
#include "server/api/stream_call.h"
#include "server/store/errors.h"
#include "spdlog/spdlog.h"

namespace ropelab::api {
namespace {

using CallContext = grpc::CallbackServerContext;

class Service : public v1::HeadScoreService::CallbackService {
 public:
  explicit Service(const ServiceContext& context) : context_(context) {}

  grpc::ServerUnaryReactor* ImportHeadScores(CallContext* call, const v1::ImportHeadScoresRequest* request,
                                             v1::ImportHeadScoresResponse* response) override {
    return Serve("ImportHeadScores", call, request, response, &api::ImportHeadScores);
  }
  grpc::ServerUnaryReactor* ListHeadScores(CallContext* call, const v1::ListHeadScoresRequest* request,
                                           v1::ListHeadScoresResponse* response) override {
    return Serve("ListHeadScores", call, request, response, &api::ListHeadScores);
  }
  grpc::ServerUnaryReactor* GetHeadScores(CallContext* call, const v1::GetHeadScoresRequest* request,
                                          v1::GetHeadScoresResponse* response) override {
    return Serve("GetHeadScores", call, request, response, &api::GetHeadScores);
  }
  grpc::ServerUnaryReactor* OverlapHeadScores(CallContext* call, const v1::OverlapHeadScoresRequest* request,
                                              v1::OverlapHeadScoresResponse* response) override {
    return Serve("OverlapHeadScores", call, request, response, &api::OverlapHeadScores);
  }

 private:
  static std::chrono::steady_clock::time_point Now() { return std::chrono::steady_clock::now(); }

  void Answer(const char* method, grpc::ServerUnaryReactor* reactor, const absl::Status& status,
              std::chrono::steady_clock::time_point started) {
    if (absl::IsInternal(status) || absl::IsDataLoss(status) || store::IsStoreTrouble(status)) {
      spdlog::error("{}: {}", method, status.ToString());
    }
    const grpc::Status answer = ToGrpc(status);
    context_.metrics->RpcEnded(method, answer.error_code(), Now() - started);
    reactor->Finish(answer);
  }

  template <typename Request, typename Response>
  grpc::ServerUnaryReactor* Serve(const char* method, CallContext* call, const Request* request,
                                  Response* response,
                                  absl::Status (*handler)(const ServiceContext&, const Request&, Response&)) {
    grpc::ServerUnaryReactor* reactor = call->DefaultReactor();
    const auto started = Now();
    const bool taken = context_.requests->Run([=, this] {
      absl::Status status = StillWanted(call);
      if (status.ok()) {
        status = Guarded([&] { return handler(context_, *request, *response); });
      }
      Answer(method, reactor, status, started);
    });
    if (!taken) {
      Answer(method, reactor, Busy(), started);
    }
    return reactor;
  }

  const ServiceContext context_;
};

}  // namespace

std::unique_ptr<v1::HeadScoreService::CallbackService> MakeHeadScoreService(const ServiceContext& context) {
  return std::make_unique<Service>(context);
}

}  // namespace ropelab::api
