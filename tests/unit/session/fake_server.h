// A worker service that a test plays by hand, over a real socket on loopback.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "common/mutex.h"
#include "grpcpp/grpcpp.h"
#include "ropelab/v1/worker_service.grpc.pb.h"

namespace ropelab::session {

class FakeServer : public v1::WorkerService::Service {
 public:
  // Port 0 picks one; a later server may take the same again.
  explicit FakeServer(int port = 0) {
    grpc::ServerBuilder builder;
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddListeningPort("127.0.0.1:" + std::to_string(port), grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~FakeServer() override {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
  }
  int port() const { return port_; }
  std::string target() const { return "127.0.0.1:" + std::to_string(port_); }

  grpc::Status Connect(grpc::ServerContext* context,
                       grpc::ServerReaderWriter<v1::ServerMessage, v1::WorkerMessage>* stream) override {
    {
      MutexLock lock(&mutex_);
      context_ = context;
      stream_ = stream;
      authorization_.clear();
      const auto token = context->client_metadata().find("authorization");
      if (token != context->client_metadata().end()) {
        authorization_.assign(token->second.data(), token->second.size());
      }
    }
    v1::WorkerMessage message;
    while (stream->Read(&message)) {
      MutexLock lock(&mutex_);
      received_.push_back(message);
      changed_.NotifyAll();
    }
    MutexLock lock(&mutex_);
    if (stream_ == stream) {
      stream_ = nullptr;
      context_ = nullptr;
    }
    changed_.NotifyAll();
    return grpc::Status::OK;
  }

  void Send(const v1::ServerMessage& message) {
    MutexLock lock(&mutex_);
    if (stream_ != nullptr) stream_->Write(message);
  }
  void Cut() {
    MutexLock lock(&mutex_);
    if (context_ != nullptr) context_->TryCancel();
  }
  // The next message of this kind; those before it are dropped. None: it did not come in time.
  std::optional<v1::WorkerMessage> Await(v1::WorkerMessage::MessageCase kind,
                                         std::chrono::milliseconds patience = std::chrono::seconds(5)) {
    const auto until = std::chrono::steady_clock::now() + patience;
    MutexLock lock(&mutex_);
    while (true) {
      while (!received_.empty()) {
        v1::WorkerMessage message = received_.front();
        received_.pop_front();
        if (message.message_case() == kind) return message;
      }
      const auto left = until - std::chrono::steady_clock::now();
      if (left <= std::chrono::nanoseconds(0)) return std::nullopt;
      changed_.WaitFor(&mutex_, left);
    }
  }
  std::string authorization() {
    MutexLock lock(&mutex_);
    return authorization_;
  }

 private:
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
  Mutex mutex_;
  CondVar changed_;
  grpc::ServerContext* context_ = nullptr;
  grpc::ServerReaderWriter<v1::ServerMessage, v1::WorkerMessage>* stream_ = nullptr;
  std::deque<v1::WorkerMessage> received_;
  std::string authorization_;
};

}  // namespace ropelab::session
