#include "server/api/head_score_service.h"

#include <atomic>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "grpcpp/support/server_callback.h"
#include "server/api/head_score_sets.h"
#include "server/api/rpc_status.h"
#include "server/api/stream_call.h"
#include "server/api/unary_call.h"
#include "server/experiments/head_set_imported.h"

namespace ropelab::api {
namespace {

using CallContext = grpc::CallbackServerContext;

// A file that arrives in pieces.
class Import : public grpc::ServerReadReactor<v1::ImportHeadScoresRequest> {
 public:
  Import(const ServiceContext& context, std::atomic<int>* open, CallContext* call,
         v1::ImportHeadScoresResponse* response)
      : context_(context), open_(open), call_(call), response_(response) {
    if (++*open_ > kMostOpen) {
      End(Busy());
      return;
    }
    StartRead(&piece_);
  }

  void OnReadDone(bool ok) override {
    if (ok) {
      const absl::Status taken = Guarded([this] { return Take(); });
      if (taken.ok()) {
        StartRead(&piece_);
      } else {
        End(taken);
      }
      return;
    }
    // All is there, or the stream was cut: then nothing is kept.
    const bool run = context_.requests->Run([this] {
      absl::Status status = StillWanted(call_);
      if (status.ok()) {
        status = Guarded([this] { return api::ImportHeadScores(context_, whole_, *response_); });
      }
      End(status);
    });
    if (!run) {
      End(Busy());
    }
  }

  void OnDone() override {
    context_.metrics->RpcEnded("ImportHeadScores", code_, std::chrono::steady_clock::now() - started_);
    --*open_;
    delete this;
  }

 private:
  static constexpr int kMostOpen = 8;  // each holds a file in memory

  absl::Status Take() {
    if (!begun_) {
      begun_ = true;
      whole_.Swap(&piece_);
    } else {
      whole_.mutable_content()->append(piece_.content());
    }
    return static_cast<int64_t>(whole_.content().size()) <= experiments::kLargestHeadScores
               ? absl::OkStatus()
               : absl::InvalidArgumentError(
                     absl::StrCat("the file for head scores has more than ", experiments::kLargestHeadScores,
                                  " bytes: give fewer scores a head, or their mean alone"));
  }

  void End(const absl::Status& status) {
    LogTrouble("ImportHeadScores", status);
    const grpc::Status answer = ToGrpc(status);
    code_ = answer.error_code();
    Finish(answer);
  }

  const ServiceContext& context_;
  std::atomic<int>* const open_;
  CallContext* const call_;
  v1::ImportHeadScoresResponse* const response_;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  v1::ImportHeadScoresRequest piece_, whole_;
  bool begun_ = false;
  grpc::StatusCode code_ = grpc::StatusCode::OK;
};

class Service : public v1::HeadScoreService::CallbackService {
 public:
  explicit Service(const ServiceContext& context) : context_(context) {}

  grpc::ServerReadReactor<v1::ImportHeadScoresRequest>* ImportHeadScores(
      CallContext* call, v1::ImportHeadScoresResponse* response) override {
    return new Import(context_, &imports_, call, response);
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
  template <typename Request, typename Response>
  grpc::ServerUnaryReactor* Serve(const char* method, CallContext* call, const Request* request,
                                  Response* response,
                                  absl::Status (*handler)(const ServiceContext&, const Request&, Response&)) {
    return ServeUnary(context_, method, call, request, response, handler);
  }

  const ServiceContext context_;
  std::atomic<int> imports_ = 0;
};

}  // namespace

std::unique_ptr<v1::HeadScoreService::CallbackService> MakeHeadScoreService(const ServiceContext& context) {
  return std::make_unique<Service>(context);
}

}  // namespace ropelab::api
