#include "worker/session/recorder.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace ropelab::session {
namespace {

constexpr size_t kMostReadingBytes = size_t{1} << 20;

std::string Bytes(const v1::Reading& reading) {
  std::string bytes;
  google::protobuf::io::StringOutputStream target(&bytes);
  {
    google::protobuf::io::CodedOutputStream coded(&target);
    coded.SetSerializationDeterministic(true);
    reading.SerializeToCodedStream(&coded);
  }
  return bytes;
}

absl::Status Gone() {
  return absl::CancelledError("the lease is gone");
}

}  // namespace

absl::Status SessionRecorder::Emit(v1::Reading reading, std::vector<measure::ArtifactBytes> artifacts) {
  BufferedEntry entry;
  for (measure::ArtifactBytes& artifact : artifacts) {
    std::string sha256 = Sha256Hex(artifact.bytes);
    v1::ArtifactName* name = reading.add_artifacts();
    name->set_name(artifact.name);
    name->set_sha256(sha256);
    name->set_bytes(static_cast<int64_t>(artifact.bytes.size()));
    entry.artifacts.push_back({std::move(sha256), std::move(artifact.bytes)});
  }
  std::string body = Bytes(reading);
  ++sequence_;
  if (body.size() > kMostReadingBytes) {
    return absl::InternalError(absl::StrCat("reading ", sequence_, " has ", body.size(), " bytes, more than ",
                                            kMostReadingBytes, "; the measurement must split it"));
  }
  const std::string sha256 = Sha256Hex(body);
  digest_.Update(sha256);

  entry.work = work_;
  entry.sequence = sequence_;
  v1::ReadingMessage* message = entry.message.mutable_reading();
  message->set_sequence(sequence_);
  message->set_sha256(sha256);
  message->set_body(std::move(body));

  MutexLock lock(&desk_->mutex);
  while (true) {
    switch (desk_->machine.Offer(std::move(entry))) {
      case SessionMachine::Admission::kTaken:
        desk_->changed.NotifyAll();
        return absl::OkStatus();
      case SessionMachine::Admission::kGone:
        return Gone();
      case SessionMachine::Admission::kFull:
        if (desk_->stopping) return Gone();
        desk_->changed.Wait(&desk_->mutex);
        break;
    }
  }
}

absl::Status SessionRecorder::Progress(double done, double total) {
  MutexLock lock(&desk_->mutex);
  if (desk_->stopping || !desk_->machine.Progress(work_, done, total)) return Gone();
  return absl::OkStatus();
}

v1::Completion SessionRecorder::FinishCompletion() {
  v1::Completion completion;
  completion.set_sequence(sequence_ + 1);
  completion.set_digest(digest_.FinishHex());
  return completion;
}

}  // namespace ropelab::session
