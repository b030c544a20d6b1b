#include "worker/session/corpus_fetch.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/corpus_text.h"
#include "common/printable.h"
#include "common/sha256.h"
#include "spdlog/spdlog.h"
#include "worker/measure/texts.h"

namespace ropelab::session {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kSlice{50};
constexpr size_t kShownMessage = 1000;

auto Now() {
  return Clock::Real().Monotonic();
}

}  // namespace

// One call. Its completion queue lets the measuring thread look at its lease while it waits.
class CorpusFetcher::Attempt {
 public:
  Attempt(const std::shared_ptr<grpc::Channel>& channel, const Options& options, FetchProgress progress)
      : options_(options), progress_(progress), stub_(v1::WorkerService::NewStub(channel)) {
    if (!options.token.empty()) context_.AddMetadata("authorization", "Bearer " + options.token);
  }
  ~Attempt() {
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  // The server's last word; `stopped()` says whether we ended the call ourselves.
  grpc::Status Run(const v1::ReadCorpusRequest& request) {
    reader_ = stub_->AsyncReadCorpus(&context_, request, &queue_, this);
    Await();
    v1::CorpusBytes message;
    while (true) {
      reader_->Read(&message, this);
      if (!Await()) break;
      Take(message);
    }
    grpc::Status status;
    reader_->Finish(&status, this);
    Await();
    return status;
  }

  const absl::Status& stopped() const { return stopped_; }
  // Whether all has come, as its hash says.
  bool complete() const { return ended_ && Sha256Hex(bytes_) == sha256_; }
  std::string TakeBytes() { return std::move(bytes_); }

 private:
  // Until the pending operation ends; false: it failed, as the last read of every stream does.
  bool Await() {
    const auto began = Now();
    while (true) {
      void* tag = nullptr;
      bool ok = false;
      const auto next = queue_.AsyncNext(&tag, &ok, std::chrono::system_clock::now() + kSlice);
      if (next == grpc::CompletionQueue::GOT_EVENT) return ok;
      Look();
      if (Now() - began > options_.silence) {
        Stop(absl::UnavailableError(
            absl::StrCat("the server said nothing for ", options_.silence.count(), " ms")));
      }
    }
  }

  void Take(const v1::CorpusBytes& message) {
    if (total_ < 0) total_ = message.total();
    bytes_ += message.data();
    if (!message.sha256().empty()) {
      ended_ = true;
      sha256_ = message.sha256();
    }
    if (static_cast<int64_t>(bytes_.size()) > kLargestDocument) {
      Stop(absl::FailedPreconditionError(
          absl::StrCat("is larger than the ", kLargestDocument, " bytes that a document may have")));
    }
    Look();
  }

  void Look() {
    if (absl::Status status = progress_(static_cast<int64_t>(bytes_.size()), std::max<int64_t>(total_, 0));
        !status.ok()) {
      Stop(std::move(status));
    }
  }

  void Stop(absl::Status why) {
    if (!stopped_.ok()) return;
    stopped_ = std::move(why);
    context_.TryCancel();
  }

  const Options& options_;
  const FetchProgress progress_;
  std::unique_ptr<v1::WorkerService::Stub> stub_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::ClientAsyncReader<v1::CorpusBytes>> reader_;
  absl::Status stopped_;
  std::string bytes_, sha256_;
  int64_t total_ = -1;
  bool ended_ = false;
};

absl::StatusOr<std::string> CorpusFetcher::Try(const v1::ReadCorpusRequest& request, FetchProgress progress,
                                               bool& again) {
  if (channel_ == nullptr) channel_ = options_.channel();
  Attempt attempt(channel_, options_, progress);
  const grpc::Status status = attempt.Run(request);
  again = true;
  if (!attempt.stopped().ok()) {
    again = absl::IsUnavailable(attempt.stopped());
    return attempt.stopped();
  }
  const std::string said = Printable(status.error_message(), kShownMessage);
  switch (status.error_code()) {
    case grpc::StatusCode::OK:
      if (attempt.complete()) return attempt.TakeBytes();
      return absl::DataLossError("the bytes that came do not have the hash that came with them");
    case grpc::StatusCode::NOT_FOUND:
    case grpc::StatusCode::DATA_LOSS:
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::UNIMPLEMENTED:
      again = false;
      return absl::FailedPreconditionError(said);
    case grpc::StatusCode::UNAUTHENTICATED:
    case grpc::StatusCode::PERMISSION_DENIED:
      again = false;
      return absl::PermissionDeniedError(said);
    default:
      return absl::UnavailableError(said);
  }
}

absl::StatusOr<std::string> CorpusFetcher::Fetch(const std::string& corpus, int64_t document,
                                                 FetchProgress progress) {
  v1::ReadCorpusRequest request;
  request.set_corpus(corpus);
  request.set_document(document);
  Backoff backoff(options_.backoff_seed);
  const auto began = Now();
  while (true) {
    bool again = false;
    absl::StatusOr<std::string> fetched = Try(request, progress, again);
    if (fetched.ok() || absl::IsCancelled(fetched.status())) return fetched;
    const absl::Status failed(
        fetched.status().code(),
        absl::StrCat(measure::DocumentName(corpus, document), ": ", std::string(fetched.status().message())));
    if (!again || Now() - began > options_.give_up) return failed;
    spdlog::info("{}; trying again", std::string(failed.message()));
    channel_.reset();
    for (const auto until = Now() + backoff.Next(); Now() < until; std::this_thread::sleep_for(kSlice)) {
      if (absl::Status status = progress(0, 0); !status.ok()) return status;
    }
  }
}

}  // namespace ropelab::session
