// Measurements: each takes a task's Measurement and a model that is held, and emits readings. One file per
// kind.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ropelab/v1/measurement.pb.h"
#include "ropelab/v1/reading.pb.h"

namespace ropelab::model {
struct LoadedModel;
}
namespace ropelab::formats {
class Tokenizer;
}

namespace ropelab::measure {

struct ArtifactBytes {
  std::string name;  // "tensors.safetensors"
  std::string bytes;
};

// Where readings go and where a measurement asks whether it shall go on. Called from the measuring thread
// only.
class Recorder {
 public:
  virtual ~Recorder() = default;
  // Takes the next reading (the recorder numbers them from 1). Blocks while the buffer of unacknowledged
  // readings is full. The artifacts' names, hashes and sizes are filled into the reading here. CANCELLED:
  // stop at once.
  virtual absl::Status Emit(v1::Reading reading, std::vector<ArtifactBytes> artifacts) = 0;
  // Between blocks and layers. CANCELLED: the lease is gone, stop at once.
  virtual absl::Status Progress(double done, double total) = 0;
};

struct Outcome {
  std::string fed_ids_digest;  // as Completion says; empty when nothing was fed
};

class Texts;

// What a measurement may look at besides its request. A pointer is null where nothing needs it.
struct Resources {
  const model::LoadedModel* model = nullptr;
  const formats::Tokenizer* tokenizer = nullptr;
  Texts* texts = nullptr;  // documents of corpora
};
// Which of them a measurement needs.
struct Needs {
  bool model = false;
  bool tokenizer = false;
  bool texts = false;
};
Needs NeedsOf(const v1::Measurement& measurement);

struct Limits {
  int64_t memory_bytes = 0;  // for activations; 0: unknown
};

// Exceptions of libtorch become a Status here, once. INVALID_ARGUMENT and FAILED_PRECONDITION are permanent
// (another worker would fail as well); others may be tried again. FAILED_PRECONDITION too where something
// that NeedsOf names is null.
absl::StatusOr<Outcome> Measure(const v1::Measurement& measurement, const Resources& resources,
                                const Limits& limits, Recorder& recorder);
// Of what reads no text.
absl::StatusOr<Outcome> Measure(const v1::Measurement& measurement, const model::LoadedModel* model,
                                const Limits& limits, Recorder& recorder);

// Bytes that Measure will need beside the weights, at most: what admission checks. The same on every worker
// with as many threads.
absl::StatusOr<int64_t> ActivationBytes(const v1::Measurement& measurement, const model::LoadedModel& model);

}  // namespace ropelab::measure
