// A task's recorder: numbers its readings, hashes them, names their artifacts, and waits while the buffer is
// full.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/sha256.h"
#include "worker/measure/measurement.h"
#include "worker/session/desk.h"

namespace ropelab::session {

// Used by the measuring thread only; `desk` outlives it.
class SessionRecorder : public measure::Recorder {
 public:
  SessionRecorder(Desk* desk, int64_t work) : desk_(desk), work_(work) {}

  // INTERNAL: the reading is larger than a message may be. CANCELLED as in measure::Recorder.
  absl::Status Emit(v1::Reading reading, std::vector<measure::ArtifactBytes> artifacts) override;
  absl::Status Progress(double done, double total) override;

  // After the last reading: one past it, and the digest over all of them, whether sent or skipped.
  v1::Completion FinishCompletion();

 private:
  Desk* desk_;
  const int64_t work_;
  int64_t sequence_ = 0;
  Sha256 digest_;
};

}  // namespace ropelab::session
