// Keeps what a measurement says.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "worker/measure/measurement.h"

namespace ropelab::measure {

class ListRecorder : public Recorder {
 public:
  absl::Status Emit(v1::Reading reading, std::vector<ArtifactBytes> files) override {
    readings.push_back(std::move(reading));
    for (ArtifactBytes& file : files) artifacts.push_back(std::move(file));
    return absl::OkStatus();
  }
  absl::Status Progress(double now, double all) override {
    done = now;
    total = all;
    return ++calls == cancel_at_call ? absl::CancelledError("the lease is gone") : absl::OkStatus();
  }

  std::vector<v1::Reading> readings;
  std::vector<ArtifactBytes> artifacts;
  double done = 0, total = 0;
  int calls = 0;
  int cancel_at_call = 0;  // 0: never
};

}  // namespace ropelab::measure
