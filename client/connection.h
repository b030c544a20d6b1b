// The way to the server: unary calls with a deadline, streams that notice when they fall silent.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/message_text.h"
#include "client/server_status.h"
#include "grpcpp/grpcpp.h"
#include "ropelab/v1/experiment_service.grpc.pb.h"
#include "ropelab/v1/head_scores.grpc.pb.h"

namespace ropelab::client {

// HOST:PORT with a port from 1 to 65535, or INVALID_ARGUMENT.
absl::Status CheckAddress(const std::string& server);

// `text` of a token or token file without the space around it. INVALID_ARGUMENT when it is empty or cannot
// travel in a header.
absl::StatusOr<std::string> CleanToken(const std::string& source, const std::string& text);

template <typename Message>
class ServerStream;

// For one thread.
class Connection {
 public:
  using Stub = v1::ExperimentService::StubInterface;
  using HeadScoreStub = v1::HeadScoreService::StubInterface;

  Connection(std::string server, std::string token);

  const std::string& server() const { return server_; }

  // Drops the channel with all that it remembers of failures; the next call makes a new one.
  void Renew() {
    stub_.reset();
    head_scores_.reset();
    channel_.reset();
  }

  template <typename Request, typename Response>
  absl::Status Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response* response,
                    std::chrono::milliseconds deadline = std::chrono::seconds(30)) {
    return CallOn(stub(), method, request, response, deadline);
  }
  template <typename Request, typename Response>
  absl::Status Call(grpc::Status (HeadScoreStub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response* response,
                    std::chrono::milliseconds deadline = std::chrono::seconds(30)) {
    return CallOn(head_scores(), method, request, response, deadline);
  }

  // A client stream: `produce(send)` sends message after message and stops when `send` says false, which
  // means that the server has answered early. What `produce` fails with cancels the call and is returned.
  // Without a deadline: keepalive notices a server that is gone.
  template <typename Request, typename Response>
  absl::Status Send(
      std::unique_ptr<grpc::ClientWriterInterface<Request>> (Stub::*method)(grpc::ClientContext*, Response*),
      Response* response, absl::FunctionRef<absl::Status(absl::FunctionRef<bool(const Request&)>)> produce) {
    return SendOn(stub(), method, response, produce);
  }
  template <typename Request, typename Response>
  absl::Status Send(std::unique_ptr<grpc::ClientWriterInterface<Request>> (HeadScoreStub::*method)(
                        grpc::ClientContext*, Response*),
                    Response* response,
                    absl::FunctionRef<absl::Status(absl::FunctionRef<bool(const Request&)>)> produce) {
    return SendOn(head_scores(), method, response, produce);
  }

  // The stream must end before the connection does.
  template <typename Request, typename Message>
  std::unique_ptr<ServerStream<Message>> Open(std::unique_ptr<grpc::ClientAsyncReaderInterface<Message>> (
                                                  Stub::*method)(grpc::ClientContext*, const Request&,
                                                                 grpc::CompletionQueue*, void*),
                                              const Request& request) {
    auto stream = std::make_unique<ServerStream<Message>>(server_);
    Prepare(&stream->context_);
    stream->reader_ = (stub().*method)(&stream->context_, request, &stream->queue_, nullptr);
    return stream;
  }

 private:
  template <typename Service, typename Request, typename Response>
  absl::Status CallOn(Service& service,
                      grpc::Status (Service::*method)(grpc::ClientContext*, const Request&, Response*),
                      const Request& request, Response* response, std::chrono::milliseconds deadline) {
    if (absl::Status texts = CheckTexts(request); !texts.ok()) {
      return texts;
    }
    grpc::ClientContext context;
    Prepare(&context);
    context.set_deadline(std::chrono::system_clock::now() + deadline);
    return FromServer((service.*method)(&context, request, response), server_);
  }

  template <typename Service, typename Request, typename Response>
  absl::Status SendOn(Service& service,
                      std::unique_ptr<grpc::ClientWriterInterface<Request>> (Service::*method)(
                          grpc::ClientContext*, Response*),
                      Response* response,
                      absl::FunctionRef<absl::Status(absl::FunctionRef<bool(const Request&)>)> produce) {
    grpc::ClientContext context;
    Prepare(&context);
    const auto writer = (service.*method)(&context, response);
    absl::Status texts;
    absl::Status produced = produce([&](const Request& request) {
      texts = CheckTexts(request);
      return texts.ok() && writer->Write(request);
    });
    produced.Update(texts);
    if (!produced.ok()) {
      context.TryCancel();
    } else {
      writer->WritesDone();
    }
    const absl::Status answer = FromServer(writer->Finish(), server_);
    return produced.ok() ? answer : produced;
  }

  // Made at the first call: a command that calls nobody starts none of gRPC's threads.
  Stub& stub();
  HeadScoreStub& head_scores();
  const std::shared_ptr<grpc::Channel>& channel();
  void Prepare(grpc::ClientContext* context) const;

  std::string server_;
  std::string token_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::ExperimentService::Stub> stub_;
  std::unique_ptr<v1::HeadScoreService::Stub> head_scores_;
};

// A server stream read by one thread. A server that says nothing for `silence` counts as gone.
template <typename Message>
class ServerStream {
 public:
  explicit ServerStream(std::string server) : server_(std::move(server)) {}
  ServerStream(const ServerStream&) = delete;
  ServerStream& operator=(const ServerStream&) = delete;
  ~ServerStream() {
    if (!finished_) {
      context_.TryCancel();
      Message ignored;
      while (Next(&ignored, std::chrono::seconds(30))) {
      }
    }
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  // False when the stream has ended: then status() says how.
  bool Next(Message* message, std::chrono::milliseconds silence) {
    if (finished_) {
      return false;
    }
    bool alive = true;
    if (!started_) {
      started_ = true;
      alive = Wait(silence);
    }
    if (alive) {
      reader_->Read(message, nullptr);
      alive = Wait(silence);
    }
    if (alive) {
      return true;
    }
    grpc::Status status;
    reader_->Finish(&status, nullptr);
    Wait(silence);
    finished_ = true;
    if (silent_ && !status.ok()) {
      status = grpc::Status(grpc::StatusCode::UNAVAILABLE, "");
    }
    status_ = FromServer(status, server_);
    return false;
  }

  const absl::Status& status() const { return status_; }

 private:
  friend class Connection;

  bool Wait(std::chrono::milliseconds silence) {
    void* tag = nullptr;
    bool ok = false;
    const auto deadline = std::chrono::system_clock::now() + silence;
    if (queue_.AsyncNext(&tag, &ok, deadline) == grpc::CompletionQueue::TIMEOUT) {
      silent_ = true;
      context_.TryCancel();
      queue_.Next(&tag, &ok);
    }
    return ok;
  }

  std::string server_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::ClientAsyncReaderInterface<Message>> reader_;
  absl::Status status_;
  bool started_ = false;
  bool finished_ = false;
  bool silent_ = false;
};

}  // namespace ropelab::client
