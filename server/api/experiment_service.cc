#include "server/api/experiment_service.h"

#include <exception>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/api/experiment_service_models.h"
#include "server/api/experiment_service_provenance.h"
#include "server/api/experiment_service_query.h"
#include "server/api/experiment_service_results.h"
#include "server/api/experiment_service_submit.h"
#include "server/api/rpc_status.h"
#include "server/api/stream_writer.h"
#include "spdlog/spdlog.h"

namespace ropelab::api {
namespace {

using CallContext = grpc::CallbackServerContext;

absl::Status Busy() {
  return absl::ResourceExhaustedError("the server has too many requests waiting; try again in a moment");
}

// Runs a handler; what throws (memory that ran out) becomes a status.
template <typename Handler>
absl::Status Guarded(Handler&& handler) {
  try {
    return handler();
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("the request failed: ", error.what()));
  }
}

// A request that waited until nobody wants its answer is not worked on.
absl::Status StillWanted(CallContext* call) {
  if (call->IsCancelled()) {
    return absl::CancelledError("the client went away");
  }
  if (call->deadline() <= std::chrono::system_clock::now()) {
    return absl::DeadlineExceededError("the deadline passed while the request waited");
  }
  return absl::OkStatus();
}

class ServiceOnPools : public ExperimentService {
 public:
  ServiceOnPools(const ServiceContext& context, const ExperimentServiceOptions& options)
      : context_(context), options_(options), watches_(WatchHub::Create(context, options.watch_pace)) {}

  void StopWatches() override { watches_->Stop(); }

  grpc::ServerUnaryReactor* Validate(CallContext* call, const v1::ValidateRequest* request,
                                     v1::ValidateResponse* response) override {
    return Serve("Validate", call, request, response, &api::Validate);
  }
  grpc::ServerUnaryReactor* Submit(CallContext* call, const v1::SubmitRequest* request,
                                   v1::SubmitResponse* response) override {
    return Serve("Submit", call, request, response, &api::Submit);
  }
  grpc::ServerUnaryReactor* Get(CallContext* call, const v1::GetRequest* request,
                                v1::Experiment* response) override {
    return Serve("Get", call, request, response, &api::Get);
  }
  grpc::ServerUnaryReactor* List(CallContext* call, const v1::ListRequest* request,
                                 v1::ListResponse* response) override {
    return Serve("List", call, request, response, &api::List);
  }
  grpc::ServerUnaryReactor* ListResults(CallContext* call, const v1::ListResultsRequest* request,
                                        v1::ListResultsResponse* response) override {
    return Serve("ListResults", call, request, response, &api::ListResults);
  }
  grpc::ServerUnaryReactor* GetProvenance(CallContext* call, const v1::ProvenanceRequest* request,
                                          v1::Provenance* response) override {
    return Serve("GetProvenance", call, request, response, &api::GetProvenance);
  }
  grpc::ServerUnaryReactor* ListModels(CallContext* call, const v1::ListModelsRequest* request,
                                       v1::ListModelsResponse* response) override {
    return Serve("ListModels", call, request, response, &api::ListModels);
  }
  grpc::ServerUnaryReactor* ListWorkers(CallContext* call, const v1::ListWorkersRequest* request,
                                        v1::ListWorkersResponse* response) override {
    return Serve("ListWorkers", call, request, response, &api::ListWorkers);
  }

  grpc::ServerUnaryReactor* Cancel(CallContext* call, const v1::CancelRequest* request,
                                   v1::Experiment* response) override {
    grpc::ServerUnaryReactor* reactor = call->DefaultReactor();
    auto answer = [this, reactor, started = Now()](const absl::Status& status) {
      Answer("Cancel", reactor, status, started);
    };
    const bool taken = context_.requests->Run([this, call, request, response, answer] {
      if (absl::Status wanted = StillWanted(call); !wanted.ok()) {
        answer(wanted);
        return;
      }
      api::Cancel(context_, *request, *response, answer);
    });
    if (!taken) {
      answer(Busy());
    }
    return reactor;
  }

  grpc::ServerWriteReactor<v1::WatchEvent>* Watch(CallContext*, const v1::WatchRequest* request) override {
    return watches_->Open(request->id());
  }
  grpc::ServerWriteReactor<v1::TableSlice>* Results(CallContext* call,
                                                    const v1::ResultsRequest* request) override {
    return Stream<v1::TableSlice>("Results", call, request, &ReadResults);
  }
  grpc::ServerWriteReactor<v1::ArtifactData>* Artifact(CallContext* call,
                                                       const v1::ArtifactRequest* request) override {
    return Stream<v1::ArtifactData>("Artifact", call, request, &ReadArtifact);
  }

 private:
  static std::chrono::steady_clock::time_point Now() { return std::chrono::steady_clock::now(); }

  void Answer(const char* method, grpc::ServerUnaryReactor* reactor, const absl::Status& status,
              std::chrono::steady_clock::time_point started) {
    if (absl::IsInternal(status) || absl::IsDataLoss(status)) {
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

  template <typename Message, typename Request>
  grpc::ServerWriteReactor<Message>* Stream(
      const char* method, CallContext* call, const Request* request,
      absl::Status (*read)(const ServiceContext&, const Request&,
                           const std::function<absl::Status(Message)>&)) {
    auto* writer = new StreamWriter<Message>(call, options_.stream_patience,
                                             [this, method, started = Now()](grpc::StatusCode code) {
                                               context_.metrics->RpcEnded(method, code, Now() - started);
                                             });  // deletes itself
    const bool taken = context_.streams->Run([=, this, request = *request] {
      absl::Status status = StillWanted(call);
      if (status.ok()) {
        status = Guarded([&] {
          return read(context_, request,
                      [writer](Message message) { return writer->Write(std::move(message)); });
        });
      }
      writer->End(status);
    });
    if (!taken) {
      writer->End(Busy());
    }
    return writer;
  }

  const ServiceContext context_;
  const ExperimentServiceOptions options_;
  const std::unique_ptr<WatchHub> watches_;
};

}  // namespace

std::unique_ptr<ExperimentService> ExperimentService::Create(const ServiceContext& context,
                                                             const ExperimentServiceOptions& options) {
  return std::make_unique<ServiceOnPools>(context, options);
}

}  // namespace ropelab::api
