#include "server/api/corpus_upload.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "server/api/experiment_service_corpora.h"
#include "server/api/rpc_status.h"
#include "server/api/stream_call.h"
#include "server/store/models.h"
#include "spdlog/spdlog.h"

namespace ropelab::api {
namespace {

constexpr int kMostOpen = 8;
constexpr size_t kNameBytes = 200;
constexpr char kAnonymous[] = "anonymous";

}  // namespace

class CorpusUploads::Upload : public grpc::ServerReadReactor<v1::AddCorpusRequest> {
 public:
  Upload(CorpusUploads* uploads, grpc::CallbackServerContext* call, v1::AddCorpusResponse* response)
      : uploads_(uploads), call_(call), response_(response), started_(std::chrono::steady_clock::now()) {
    if (++uploads_->open_ > kMostOpen) {
      End(absl::ResourceExhaustedError(
          absl::StrCat(kMostOpen, " corpora are being added just now: try again when one of them is in")));
      return;
    }
    StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    // Past the queue's limit: at most kMostOpen of these wait.
    uploads_->context_.corpora->Continue([this, ok] {
      const absl::Status status = Guarded([&] { return ok ? Take() : Commit(); });
      if (ok && status.ok()) {
        StartRead(&request_);
      } else {
        End(status);
      }
    });
  }

  void OnDone() override {
    uploads_->context_.metrics->RpcEnded("AddCorpus", code_, std::chrono::steady_clock::now() - started_);
    --uploads_->open_;
    delete this;
  }

 private:
  void End(const absl::Status& status) {
    upload_.reset();  // what is left of it goes
    if (!status.ok()) {
      spdlog::warn("AddCorpus: {}", status.ToString());
    }
    const grpc::Status answer = ToGrpc(status);
    code_ = answer.error_code();
    Finish(answer);
  }

  // One message. The stream is read on when it returns OK.
  absl::Status Take() {
    if (request_.has_head()) {
      return Begin(request_.head());
    }
    if (upload_ == nullptr) {
      return absl::InvalidArgumentError("AddCorpus begins with a head: name, kind and user of the corpus");
    }
    if (static_cast<int64_t>(request_.data().size()) > kCorpusPieceBytes) {
      return absl::InvalidArgumentError(absl::StrCat("a piece of ", request_.data().size(),
                                                     " bytes: at most ", kCorpusPieceBytes, " are taken"));
    }
    uploads_->context_.metrics->CorpusAdded(static_cast<double>(request_.data().size()));
    return upload_->Append(request_.data(), request_.document_ends());
  }

  absl::Status Begin(const v1::CorpusHead& head) {
    if (upload_ != nullptr) {
      return absl::InvalidArgumentError("a second head: a stream adds one corpus");
    }
    if (head.user().size() > kNameBytes || !IsPlainText(head.user())) {
      return absl::InvalidArgumentError(absl::StrCat("user: \"", Printable(head.user(), kNameBytes),
                                                     "\": a name of at most ", kNameBytes,
                                                     " bytes without control characters is needed"));
    }
    user_ = head.user().empty() ? kAnonymous : head.user();
    ROPELAB_ASSIGN_OR_RETURN(upload_, uploads_->context_.store->corpora().Begin(head.name(), head.kind()));
    return absl::OkStatus();
  }

  // The client has sent all, or the stream was cut: then nothing stays.
  absl::Status Commit() {
    ROPELAB_RETURN_IF_ERROR(StillWanted(call_));
    if (upload_ == nullptr) {
      return absl::InvalidArgumentError("AddCorpus without a head: nothing was sent");
    }
    ROPELAB_ASSIGN_OR_RETURN(store::CorpusRow row, upload_->Finish([this] { return StillWanted(call_); }));
    const ServiceContext& context = uploads_->context_;
    row.user = user_;
    row.registered_us = context.clock->WallMicroseconds();
    bool known = false;
    ROPELAB_RETURN_IF_ERROR(context.store->WriteAndWait([&](store::Connection& db) -> absl::Status {
      ROPELAB_ASSIGN_OR_RETURN(known, store::RegisterCorpus(db, row));
      ROPELAB_ASSIGN_OR_RETURN(const std::vector<store::CorpusRow> same,
                               store::CorporaOfContent(db, row.sha256));
      for (const store::CorpusRow& stored : same) {
        if (stored.name == row.name) {
          row = stored;
        }
      }
      return known ? absl::OkStatus()
                   : store::RecordAudit(db, user_, "corpora add", absl::StrCat(row.name, "@", row.sha256),
                                        row.registered_us);
    }));
    *response_->mutable_corpus() = DescribeCorpus(row, context.store->corpora());
    response_->set_already_registered(known);
    spdlog::info("corpus {}@{} {} by {}: {} documents, {} bytes", row.name, row.sha256,
                 known ? "sent again" : "registered", user_, row.documents, row.bytes);
    return absl::OkStatus();
  }

  CorpusUploads* const uploads_;
  grpc::CallbackServerContext* const call_;
  v1::AddCorpusResponse* const response_;
  const std::chrono::steady_clock::time_point started_;
  v1::AddCorpusRequest request_;
  std::unique_ptr<store::CorpusUpload> upload_;
  std::string user_;
  grpc::StatusCode code_ = grpc::StatusCode::OK;
};

grpc::ServerReadReactor<v1::AddCorpusRequest>* CorpusUploads::Open(grpc::CallbackServerContext* call,
                                                                   v1::AddCorpusResponse* response) {
  return new Upload(this, call, response);
}

}  // namespace ropelab::api
