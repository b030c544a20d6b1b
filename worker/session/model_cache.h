// The models that this process holds: loaded when a task needs one, kept while memory allows, the least
// recently used given back first. Weights are mapped, so files that change under a held model may change
// what it computes: a stamp of the directory is compared before and after each task, and a directory that
// only was touched proves by its hash that it is the same model.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "ropelab/v1/worker_service.pb.h"
#include "worker/measure/measurement.h"
#include "worker/model/loaded_model.h"
#include "worker/session/worker_metrics.h"

namespace ropelab::session {

class ModelCache {
 public:
  struct Options {
    std::vector<std::string> roots;
    std::string cache_dir;
    at::Device device = at::kCPU;
    int64_t memory_limit = 0;          // bytes for models and activations; 0: none
    WorkerMetrics* metrics = nullptr;  // may be null
  };
  explicit ModelCache(Options options) : options_(std::move(options)) {}

  // The model of a grant, in the dtype that it names. Measuring thread only, which makes loads single-flight.
  // Progress of hashing and loading goes to the recorder. FAILED_PRECONDITION: the directory is not, or no
  // longer, what the task names (the file is named), or its weights are larger than the memory limit, which
  // its headers tell before anything is read; ABORTED: it changes at this moment; NOT_FOUND; CANCELLED.
  absl::StatusOr<std::shared_ptr<const model::LoadedModel>> Get(const v1::Grant& grant,
                                                                absl::FunctionRef<void(bool)> loading,
                                                                measure::Recorder& recorder);
  // After a task: the model's directory is what it was when the model was loaded. ABORTED names the file:
  // what was measured meanwhile may be of other weights. Measuring thread only.
  absl::Status CheckUnchanged(const v1::Grant& grant) const;
  // Gives back other models until `bytes` fit beside `keep`. Measuring thread only. Returns the bytes that
  // are free now; 0 when there is no limit.
  int64_t MakeRoom(int64_t bytes, const model::LoadedModel* keep);

  // Any thread.
  v1::WeightsHash Hash(const std::string& model,
                       absl::FunctionRef<bool(int64_t done, int64_t total)> keep_going) const;
  std::string MostRecentWeightsHash() const;  // empty: no model is held

 private:
  struct Held {
    std::string directory;
    std::string stamp;
    v1::ModelIdentity identity;
    std::shared_ptr<const model::LoadedModel> model;
  };
  absl::StatusOr<Held> Load(const std::string& name, const std::string& directory,
                            const v1::ModelIdentity& wanted, measure::Recorder& recorder);
  absl::Status CheckFits(const std::string& name, v1::Dtype::Value dtype, int64_t bytes) const;
  void Drop(std::list<Held>::iterator held) ROPELAB_REQUIRES(mutex_);
  int64_t Resident() const ROPELAB_REQUIRES(mutex_);

  const Options options_;
  mutable Mutex mutex_;
  std::list<Held> held_ ROPELAB_GUARDED_BY(mutex_);  // most recently used first
};

}  // namespace ropelab::session
