#include "server/api/experiment_service.h"

#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "server/api/corpus_upload.h"
#include "server/api/experiment_service_corpora.h"
#include "server/api/experiment_service_models.h"
#include "server/api/experiment_service_provenance.h"
#include "server/api/experiment_service_query.h"
#include "server/api/experiment_service_results.h"
#include "server/api/experiment_service_submit.h"
#include "server/api/stream_call.h"
#include "server/api/unary_call.h"

namespace ropelab::api {
namespace {

using CallContext = grpc::CallbackServerContext;

class ServiceOnPools : public ExperimentService {
 public:
  ServiceOnPools(const ServiceContext& context, const ExperimentServiceOptions& options)
      : context_(context),
        options_(options),
        watches_(WatchHub::Create(context, options.watch_pace)),
        uploads_(context) {}

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
  grpc::ServerUnaryReactor* ListCorpora(CallContext* call, const v1::ListCorporaRequest* request,
                                        v1::ListCorporaResponse* response) override {
    return Serve("ListCorpora", call, request, response, &api::ListCorpora);
  }
  grpc::ServerReadReactor<v1::AddCorpusRequest>* AddCorpus(CallContext* call,
                                                           v1::AddCorpusResponse* response) override {
    return uploads_.Open(call, response);
  }

  grpc::ServerUnaryReactor* Cancel(CallContext* call, const v1::CancelRequest* request,
                                   v1::Experiment* response) override {
    grpc::ServerUnaryReactor* reactor = call->DefaultReactor();
    auto answer = [this, reactor, started = std::chrono::steady_clock::now()](const absl::Status& status) {
      AnswerUnary(context_, "Cancel", reactor, status, started);
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
  template <typename Request, typename Response>
  grpc::ServerUnaryReactor* Serve(const char* method, CallContext* call, const Request* request,
                                  Response* response,
                                  absl::Status (*handler)(const ServiceContext&, const Request&, Response&)) {
    return ServeUnary(context_, method, call, request, response, handler);
  }

  template <typename Message, typename Request>
  grpc::ServerWriteReactor<Message>* Stream(
      const char* method, CallContext* call, const Request* request,
      absl::Status (*read)(const ServiceContext&, const Request&,
                           const std::function<absl::Status(Message)>&)) {
    return ServeStream<Message>(
        method, call, context_.streams, context_.metrics, options_.stream_patience,
        [this, read, request = *request](const std::function<absl::Status(Message)>& send) {
          return read(context_, request, send);
        });
  }

  const ServiceContext context_;
  const ExperimentServiceOptions options_;
  const std::unique_ptr<WatchHub> watches_;
  CorpusUploads uploads_;
};

}  // namespace

std::unique_ptr<ExperimentService> ExperimentService::Create(const ServiceContext& context,
                                                             const ExperimentServiceOptions& options) {
  return std::make_unique<ServiceOnPools>(context, options);
}

}  // namespace ropelab::api
