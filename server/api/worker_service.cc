#include "server/api/worker_service.h"

#include <chrono>
#include <deque>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "common/mutex.h"
#include "grpcpp/support/server_callback.h"
#include "server/api/experiment_service_corpora.h"
#include "server/api/rpc_status.h"
#include "server/api/stream_call.h"
#include "spdlog/spdlog.h"

namespace ropelab::api {
namespace {

// A worker that does not read this many messages is taken for broken: nothing queues without limit.
constexpr size_t kMostQueued = 4096;
// With a worker that asked for a document and takes nothing of it.
constexpr std::chrono::seconds kReadPatience(30);

// One stream. Reads one message at a time and reads on only when the coordinator consumed it; writes from a
// queue. It keeps itself alive until gRPC is done with it, and the coordinator may hold it longer: then Send
// and Close do nothing.
class Stream : public grpc::ServerBidiReactor<v1::WorkerMessage, v1::ServerMessage>, public WorkerLink {
 public:
  // Opens the link and begins to read.
  static Stream* Open(Coordinator* coordinator) {
    auto stream = std::make_shared<Stream>();
    stream->self_ = stream;
    stream->coordinator_ = coordinator;
    stream->id_ = coordinator->LinkOpened(stream);
    stream->StartRead(&stream->incoming_);
    return stream.get();
  }

  void Send(v1::ServerMessage message) override {
    MutexLock lock(&mutex_);
    if (closing_) {
      return;
    }
    if (outgoing_.size() >= kMostQueued) {
      CloseLocked(
          absl::ResourceExhaustedError("the worker does not read what the server sends; connect again"));
      return;
    }
    outgoing_.push_back(std::move(message));
    if (outgoing_.size() == 1) {
      StartWrite(&outgoing_.front());
    }
  }

  void Close(absl::Status status) override {
    MutexLock lock(&mutex_);
    CloseLocked(std::move(status));
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      coordinator_->LinkClosed(id_);
      Close(absl::OkStatus());
      return;
    }
    v1::WorkerMessage message;
    message.Swap(&incoming_);
    coordinator_->LinkMessage(id_, std::move(message), [stream = self_] { stream->ReadOn(); });
  }

  void OnWriteDone(bool ok) override {
    MutexLock lock(&mutex_);
    outgoing_.pop_front();
    if (!ok) {
      outgoing_.clear();
    }
    if (!outgoing_.empty()) {
      StartWrite(&outgoing_.front());
    } else if (closing_) {
      FinishLocked();
    }
  }

  void OnCancel() override {
    coordinator_->LinkClosed(id_);
    Close(absl::CancelledError("the worker went away"));
  }

  void OnDone() override {
    coordinator_->LinkClosed(id_);
    std::shared_ptr<Stream> last;  // released after the lock
    MutexLock lock(&mutex_);
    last = std::move(self_);
  }

 private:
  void ReadOn() {
    MutexLock lock(&mutex_);
    if (!closing_) {
      StartRead(&incoming_);
    }
  }

  // What is queued still goes out before the stream ends.
  void CloseLocked(absl::Status status) ROPELAB_REQUIRES(mutex_) {
    if (closing_) {
      return;
    }
    closing_ = true;
    status_ = std::move(status);
    if (outgoing_.empty()) {
      FinishLocked();
    }
  }

  void FinishLocked() ROPELAB_REQUIRES(mutex_) {
    if (!finished_) {
      finished_ = true;
      Finish(ToGrpc(ForWorker(status_)));
    }
  }

  Coordinator* coordinator_ = nullptr;
  int64_t id_ = 0;
  v1::WorkerMessage incoming_;
  Mutex mutex_;
  std::shared_ptr<Stream> self_;
  std::deque<v1::ServerMessage> outgoing_ ROPELAB_GUARDED_BY(mutex_);  // the front is being written
  bool closing_ ROPELAB_GUARDED_BY(mutex_) = false;
  bool finished_ ROPELAB_GUARDED_BY(mutex_) = false;
  absl::Status status_ ROPELAB_GUARDED_BY(mutex_);
};

class Service : public v1::WorkerService::CallbackService {
 public:
  explicit Service(const ServiceContext& context) : context_(context) {}
  grpc::ServerBidiReactor<v1::WorkerMessage, v1::ServerMessage>* Connect(
      grpc::CallbackServerContext*) override {
    return Stream::Open(context_.coordinator);
  }
  grpc::ServerWriteReactor<v1::CorpusBytes>* ReadCorpus(grpc::CallbackServerContext* call,
                                                        const v1::ReadCorpusRequest* request) override {
    return ServeStream<v1::CorpusBytes>(
        "ReadCorpus", call, context_.corpora, context_.metrics, kReadPatience,
        [this, request = *request](const std::function<absl::Status(v1::CorpusBytes)>& send) {
          absl::Status status = api::ReadCorpus(context_, request, send);
          if (absl::IsDataLoss(status)) {
            spdlog::error("ReadCorpus: {}", std::string(status.message()));
          }
          return ForWorker(status);
        });
  }

 private:
  const ServiceContext context_;
};

}  // namespace

std::unique_ptr<v1::WorkerService::CallbackService> MakeWorkerService(const ServiceContext& context) {
  return std::make_unique<Service>(context);
}

}  // namespace ropelab::api
