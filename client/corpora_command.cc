// `ropelab corpora`: what is registered; `ropelab corpora add`: sends a corpus to the server.
#include <chrono>

#include "client/commands.h"
#include "client/corpora_view.h"
#include "client/corpus_source.h"
#include "client/human.h"
#include "client/json_view.h"
#include "common/clock.h"
#include "common/corpus_text.h"
#include "common/status_macros.h"

namespace ropelab::client {
namespace {

// Rewrites one line of a terminal; elsewhere says something now and then.
class UploadProgress {
 public:
  UploadProgress(Console* console, std::string name, int64_t total)
      : console_(console), name_(std::move(name)), total_(total), began_(Seconds()), shown_(began_) {}

  void Sent(int64_t bytes) {
    sent_ += bytes;
    const double now = Seconds();
    if (now - shown_ < (console_->err_width > 0 ? kRedrawSeconds : kLineSeconds)) {
      return;
    }
    shown_ = now;
    Show(now);
  }
  void End() {
    if (console_->err_width > 0 && drawn_) {
      Show(Seconds());
      console_->err << "\n" << std::flush;
    }
  }

 private:
  static constexpr double kRedrawSeconds = 0.1, kLineSeconds = 5;
  static double Seconds() { return std::chrono::duration<double>(Clock::Real().Monotonic()).count(); }

  void Show(double now) {
    const std::string line = RenderUpload(name_, sent_, total_, now - began_);
    if (console_->err_width > 0) {
      console_->err << "\r\x1b[K" << Shortened(line, console_->err_width - 1) << std::flush;
      drawn_ = true;
    } else {
      console_->err << line << std::endl;
    }
  }

  Console* const console_;
  const std::string name_;
  const int64_t total_;
  const double began_;
  double shown_;
  int64_t sent_ = 0;
  bool drawn_ = false;
};

absl::StatusOr<ExitCode> Add(Session& session) {
  const Options& options = session.options;
  Console& console = session.console;
  ROPELAB_RETURN_IF_ERROR(CheckCorpusName(options.corpus_name));
  ROPELAB_ASSIGN_OR_RETURN(const CorpusSource source,
                           FindCorpusSource(options.corpus_path, options.corpus_kind));
  UploadProgress progress(&console, options.corpus_name, source.bytes);
  v1::AddCorpusResponse response;
  const absl::Status status = session.connection.Send<v1::AddCorpusRequest>(
      &Connection::Stub::AddCorpus, &response,
      [&](absl::FunctionRef<bool(const v1::AddCorpusRequest&)> send) -> absl::Status {
        v1::AddCorpusRequest head;
        head.mutable_head()->set_name(options.corpus_name);
        head.mutable_head()->set_kind(source.kind);
        head.mutable_head()->set_user(UserName());
        if (!send(head)) {
          return absl::OkStatus();  // the server's answer says why
        }
        return ReadCorpusSource(source, [&](const v1::AddCorpusRequest& request) {
          const bool taken = send(request);
          progress.Sent(static_cast<int64_t>(request.data().size()));
          return taken;
        });
      });
  progress.End();
  ROPELAB_RETURN_IF_ERROR(status);
  if (options.json) {
    console.out << JsonText(ToJson(response));
    return ExitCode::kDone;
  }
  if (response.already_registered()) {
    console.err << "this very content is registered under that name already; nothing changed\n";
  }
  console.out << RenderCorpus(response.corpus());
  if (response.corpus().documents() == 1) {
    console.err
        << "one document, and each gives one prompt: for more, add a folder of .txt files or a .jsonl "
           "file with an object a line (the haystack of a needle takes sentences, of any number)\n";
  }
  return ExitCode::kDone;
}

}  // namespace

absl::StatusOr<ExitCode> RunCorpora(Session& session) {
  if (session.options.corpus_add) {
    return Add(session);
  }
  v1::ListCorporaResponse response;
  ROPELAB_RETURN_IF_ERROR(
      session.connection.Call(&Connection::Stub::ListCorpora, v1::ListCorporaRequest(), &response));
  session.console.out << (session.options.json ? JsonText(ToJsonArray(response.corpora()))
                                               : RenderCorpora(response, Clock::Real().WallMicroseconds()));
  return ExitCode::kDone;
}

}  // namespace ropelab::client
