// A server stream whose content is made by a visitor (a table's slices, a file's pieces) on a thread that may
// wait for the reader. One message is under way at a time.
#pragma once

#include <chrono>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "common/mutex.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/api/rpc_status.h"

namespace ropelab::api {

// Owns itself: deleted when gRPC is done with the call.
template <typename Message>
class StreamWriter : public grpc::ServerWriteReactor<Message> {
 public:
  // `ended` is called once, on one of gRPC's threads.
  StreamWriter(grpc::CallbackServerContext* call, std::chrono::nanoseconds patience,
               std::function<void(grpc::StatusCode)> ended)
      : call_(call), patience_(patience), ended_(std::move(ended)) {}

  // Sends, and waits until the message has left. CANCELLED when the client went away; DEADLINE_EXCEEDED, and
  // the call is ended, when the client took nothing for `patience`. After a failure call End.
  absl::Status Write(Message message) {
    MutexLock lock(&mutex_);
    if (gone_) {
      return Gone();
    }
    message_ = std::move(message);
    under_way_ = true;
    this->StartWrite(&message_);
    const auto deadline = std::chrono::steady_clock::now() + patience_;
    bool stalled = false;
    while (under_way_) {
      const auto left = deadline - std::chrono::steady_clock::now();
      if (stalled) {
        written_.Wait(&mutex_);
      } else if (left.count() <= 0) {
        stalled = true;
        call_->TryCancel();  // makes OnWriteDone come
      } else {
        written_.WaitFor(&mutex_, left);
      }
    }
    if (stalled) {
      return absl::DeadlineExceededError("the client read nothing for too long");
    }
    return gone_ ? Gone() : absl::OkStatus();
  }

  // Ends the stream; the last call.
  void End(const absl::Status& status) {
    const grpc::Status answer = ToGrpc(status);
    code_ = answer.error_code();
    this->Finish(answer);
  }

  void OnWriteDone(bool ok) override {
    MutexLock lock(&mutex_);
    under_way_ = false;
    gone_ = gone_ || !ok;
    written_.NotifyAll();
  }
  void OnCancel() override {
    MutexLock lock(&mutex_);
    gone_ = true;
  }
  void OnDone() override {
    ended_(code_);
    delete this;
  }

 private:
  static absl::Status Gone() { return absl::CancelledError("the client went away"); }

  grpc::CallbackServerContext* const call_;
  const std::chrono::nanoseconds patience_;
  const std::function<void(grpc::StatusCode)> ended_;
  Mutex mutex_;
  CondVar written_;
  bool under_way_ ROPELAB_GUARDED_BY(mutex_) = false;
  bool gone_ ROPELAB_GUARDED_BY(mutex_) = false;
  Message message_;
  grpc::StatusCode code_ = grpc::StatusCode::OK;
};

}  // namespace ropelab::api
