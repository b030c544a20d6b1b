// An ExperimentService on loopback that says what a test tells it to; it can die and come back on its port.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grpcpp/grpcpp.h"
#include "ropelab/v1/experiment_service.grpc.pb.h"

namespace ropelab::client {

class FakeServer : public v1::ExperimentService::Service {
 public:
  FakeServer() { Start(); }
  ~FakeServer() override { Stop(); }

  void Start() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address(), grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  // Cuts every stream, as a process that is killed does.
  void Stop() {
    if (server_ != nullptr) {
      server_->Shutdown(std::chrono::system_clock::now());
      server_->Wait();
      server_.reset();
    }
  }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

  // What a test sets; an unset one answers UNIMPLEMENTED.
  std::function<grpc::Status(grpc::ServerContext*, grpc::ServerWriter<v1::WatchEvent>*)> watch;
  std::function<grpc::Status(const v1::SubmitRequest&, v1::SubmitResponse*)> submit;
  std::function<grpc::Status(const v1::ValidateRequest&, v1::ValidateResponse*)> validate;
  std::function<grpc::Status(grpc::ServerContext*, const v1::GetRequest&, v1::Experiment*)> get;
  std::function<grpc::Status(const v1::ListRequest&, v1::ListResponse*)> list;
  std::function<grpc::Status(const v1::CancelRequest&, v1::Experiment*)> cancel;
  std::function<grpc::Status(v1::ListCorporaResponse*)> list_corpora;
  // Asked after every message; a status that is not OK answers at once. At the end `added` answers.
  std::function<grpc::Status(const v1::AddCorpusRequest&)> corpus_part;
  std::function<grpc::Status(v1::AddCorpusResponse*)> added;
  std::vector<v1::TableSlice> slices;
  std::vector<v1::ArtifactData> pieces;

 private:
  static grpc::Status Unset() { return {grpc::StatusCode::UNIMPLEMENTED, ""}; }

  grpc::Status Watch(grpc::ServerContext* context, const v1::WatchRequest*,
                     grpc::ServerWriter<v1::WatchEvent>* writer) override {
    return watch ? watch(context, writer) : Unset();
  }
  grpc::Status Submit(grpc::ServerContext*, const v1::SubmitRequest* request,
                      v1::SubmitResponse* response) override {
    return submit ? submit(*request, response) : Unset();
  }
  grpc::Status Validate(grpc::ServerContext*, const v1::ValidateRequest* request,
                        v1::ValidateResponse* response) override {
    return validate ? validate(*request, response) : Unset();
  }
  grpc::Status Get(grpc::ServerContext* context, const v1::GetRequest* request,
                   v1::Experiment* response) override {
    return get ? get(context, *request, response) : Unset();
  }
  grpc::Status List(grpc::ServerContext*, const v1::ListRequest* request,
                    v1::ListResponse* response) override {
    return list ? list(*request, response) : Unset();
  }
  grpc::Status Cancel(grpc::ServerContext*, const v1::CancelRequest* request,
                      v1::Experiment* response) override {
    return cancel ? cancel(*request, response) : Unset();
  }
  grpc::Status ListCorpora(grpc::ServerContext*, const v1::ListCorporaRequest*,
                           v1::ListCorporaResponse* response) override {
    return list_corpora ? list_corpora(response) : Unset();
  }
  grpc::Status AddCorpus(grpc::ServerContext* context, grpc::ServerReader<v1::AddCorpusRequest>* reader,
                         v1::AddCorpusResponse* response) override {
    v1::AddCorpusRequest request;
    while (reader->Read(&request)) {
      const grpc::Status status = corpus_part ? corpus_part(request) : grpc::Status::OK;
      if (!status.ok()) return status;
    }
    if (context->IsCancelled()) return grpc::Status::CANCELLED;
    return added ? added(response) : Unset();
  }
  grpc::Status Results(grpc::ServerContext*, const v1::ResultsRequest*,
                       grpc::ServerWriter<v1::TableSlice>* writer) override {
    for (const v1::TableSlice& slice : slices) writer->Write(slice);
    return grpc::Status::OK;
  }
  grpc::Status Artifact(grpc::ServerContext*, const v1::ArtifactRequest*,
                        grpc::ServerWriter<v1::ArtifactData>* writer) override {
    for (const v1::ArtifactData& piece : pieces) writer->Write(piece);
    return grpc::Status::OK;
  }

  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace ropelab::client
