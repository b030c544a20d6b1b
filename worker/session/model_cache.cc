#include "worker/session/model_cache.h"

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "common/clock.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "spdlog/spdlog.h"
#include "worker/formats/checkpoint.h"
#include "worker/session/config_message.h"
#include "worker/session/model_scan.h"
#include "worker/session/verification.h"

namespace ropelab::session {
namespace {

constexpr size_t kProblemBytes = 2000;

absl::StatusOr<at::ScalarType> ScalarType(v1::Dtype::Value dtype) {
  switch (dtype) {
    case v1::Dtype::FLOAT32:
      return at::kFloat;
    case v1::Dtype::BFLOAT16:
      return at::kBFloat16;
    case v1::Dtype::FLOAT16:
      return at::kHalf;
    case v1::Dtype::INT8:
      return model::kInt8Weights;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("dtype ", v1::Dtype::Value_Name(dtype),
                       " is not one that this worker loads: FLOAT32, BFLOAT16, FLOAT16 or INT8"));
  }
}

// The files whose stamps differ, so that the message names them.
std::string Difference(const std::string& before, const std::string& after) {
  const std::vector<std::string> was = absl::StrSplit(before, ';');
  const std::vector<std::string> is = absl::StrSplit(after, ';');
  for (size_t i = 0; i < std::max(was.size(), is.size()); ++i) {
    const std::string a = i < was.size() ? was[i] : "nothing";
    const std::string b = i < is.size() ? is[i] : "nothing";
    if (a != b) return absl::StrCat(a, " became ", b);
  }
  return "no file";
}

// What a load came to, as a metric's label.
std::string OutcomeOf(const absl::Status& status) {
  if (status.ok()) return "loaded";
  if (absl::IsCancelled(status)) return "cancelled";
  return absl::IsFailedPrecondition(status) ? "refused" : "failed";
}

// Not the tokenizer: what reads text got it, and had its hash compared, before (tokenizer_cache.h); what does
// not runs the same beside any.
absl::Status CheckIdentity(const std::string& name, const std::string& directory,
                           const v1::ModelIdentity& wanted, const v1::ModelIdentity& found) {
  const struct {
    const char* what;
    const std::string& wanted;
    const std::string& found;
  } parts[] = {{"the weights (*.safetensors)", wanted.weights_hash(), found.weights_hash()},
               {"config.json", wanted.config_hash(), found.config_hash()}};
  for (const auto& part : parts) {
    if (part.wanted != part.found) {
      return absl::FailedPreconditionError(
          absl::StrCat("model ", name, " in ", directory, ": ", part.what, " changed: the task is on ",
                       part.wanted.empty() ? "none" : part.wanted.substr(0, 16), ", the directory holds ",
                       part.found.empty() ? "none" : part.found.substr(0, 16),
                       "; put the old files back or submit again"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const model::LoadedModel>> ModelCache::Get(
    const v1::Grant& grant, absl::FunctionRef<void(bool)> loading, measure::Recorder& recorder) {
  const v1::ModelIdentity& wanted = grant.measurement().model();
  ROPELAB_ASSIGN_OR_RETURN(const FoundModel found, FindModel(options_.roots, grant.model()));
  ROPELAB_ASSIGN_OR_RETURN(const std::string stamp, formats::DirectoryStamp(found.directory));
  std::string difference;
  {
    MutexLock lock(&mutex_);
    for (auto held = held_.begin(); held != held_.end();) {
      const auto here = held++;
      if (here->directory != found.directory) continue;
      if (here->stamp != stamp) {
        // The mapped bytes are no longer vouched for. Files that were only touched hash as before.
        difference = Difference(here->stamp, stamp);
        spdlog::warn("model {} in {} is loaded anew: {}", found.name, found.directory, difference);
        Drop(here);
        continue;
      }
      if (here->identity.dtype() != wanted.dtype()) continue;
      ROPELAB_RETURN_IF_ERROR(CheckIdentity(found.name, found.directory, wanted, here->identity));
      held_.splice(held_.begin(), held_, here);
      return held_.front().model;
    }
  }
  loading(true);
  const auto began = Clock::Real().Monotonic();
  absl::StatusOr<Held> loaded = Load(found.name, found.directory, wanted, recorder);
  const double seconds = std::chrono::duration<double>(Clock::Real().Monotonic() - began).count();
  loading(false);
  if (options_.metrics != nullptr) {
    options_.metrics->ModelLoad(OutcomeOf(loaded.status()), seconds,
                                loaded.ok() ? static_cast<double>(loaded->model->bytes) : 0);
  }
  if (!loaded.ok()) {
    return difference.empty() ? loaded.status()
                              : absl::Status(loaded.status().code(),
                                             absl::StrCat(loaded.status().message(), " (", difference, ")"));
  }
  spdlog::info("model {} loaded: {} bytes in {:.2f} s", found.name, loaded->model->bytes, seconds);
  MutexLock lock(&mutex_);
  held_.push_front(*std::move(loaded));
  if (options_.metrics != nullptr) options_.metrics->ResidentModels(static_cast<double>(Resident()));
  return held_.front().model;
}

absl::StatusOr<ModelCache::Held> ModelCache::Load(const std::string& name, const std::string& directory,
                                                  const v1::ModelIdentity& wanted,
                                                  measure::Recorder& recorder) {
  ROPELAB_ASSIGN_OR_RETURN(const at::ScalarType dtype, ScalarType(wanted.dtype()));
  Held held;
  held.directory = directory;
  ROPELAB_ASSIGN_OR_RETURN(held.stamp, formats::DirectoryStamp(directory));
  ROPELAB_ASSIGN_OR_RETURN(const formats::ModelConfig config, formats::ReadConfig(directory));
  held.identity.set_dtype(wanted.dtype());
  held.identity.set_config_hash(formats::ConfigHash(config));
  // Headers tell the size: what cannot fit is refused before anything is read, and nothing else makes room
  // for it.
  ROPELAB_ASSIGN_OR_RETURN(const int64_t bytes, model::ModelBytes(directory, dtype));
  ROPELAB_RETURN_IF_ERROR(CheckFits(name, wanted.dtype(), bytes));
  const auto progress = [&](int64_t done, int64_t total) {
    return recorder.Progress(static_cast<double>(done), static_cast<double>(total)).ok();
  };
  ROPELAB_ASSIGN_OR_RETURN(*held.identity.mutable_weights_hash(),
                           formats::WeightsHash(directory, options_.cache_dir, progress));
  ROPELAB_RETURN_IF_ERROR(CheckIdentity(name, directory, wanted, held.identity));

  const int64_t room = MakeRoom(bytes, nullptr);
  ROPELAB_ASSIGN_OR_RETURN(held.model,
                           model::LoadModel(directory, dtype, options_.device, room,
                                            [&](int64_t done, int64_t total) { progress(done, total); }));
  ROPELAB_ASSIGN_OR_RETURN(const std::string after, formats::DirectoryStamp(directory));
  if (after != held.stamp) {
    return absl::AbortedError(absl::StrCat("model ", name, " in ", directory,
                                           " changed while it was loaded: ", Difference(held.stamp, after)));
  }
  return held;
}

absl::Status ModelCache::CheckFits(const std::string& name, v1::Dtype::Value dtype, int64_t bytes) const {
  if (options_.memory_limit <= 0 || bytes <= options_.memory_limit) return absl::OkStatus();
  constexpr double kMiB = 1 << 20;
  return absl::FailedPreconditionError(
      absl::StrFormat("model %s: its weights need %d bytes (%.1f MiB) in %s, this worker may use %d (%.1f "
                      "MiB) for models and "
                      "activations; raise --memory-limit%s or use a worker with more memory",
                      name, bytes, static_cast<double>(bytes) / kMiB, v1::Dtype::Value_Name(dtype),
                      options_.memory_limit, static_cast<double>(options_.memory_limit) / kMiB,
                      dtype == v1::Dtype::FLOAT32 ? ", ask for a 16-bit dtype or INT8" : ""));
}

absl::Status ModelCache::CheckUnchanged(const v1::Grant& grant) const {
  ROPELAB_ASSIGN_OR_RETURN(const FoundModel found, FindModel(options_.roots, grant.model()));
  const absl::StatusOr<std::string> stamp = formats::DirectoryStamp(found.directory);
  MutexLock lock(&mutex_);
  const auto held = std::find_if(held_.begin(), held_.end(), [&](const Held& candidate) {
    return candidate.directory == found.directory &&
           candidate.identity.dtype() == grant.measurement().model().dtype();
  });
  if (held == held_.end() || (stamp.ok() && held->stamp == *stamp)) return absl::OkStatus();
  return absl::AbortedError(
      absl::StrCat("model ", found.name, " in ", found.directory, " changed while the task ran: ",
                   stamp.ok() ? Difference(held->stamp, *stamp) : std::string(stamp.status().message())));
}

int64_t ModelCache::MakeRoom(int64_t bytes, const model::LoadedModel* keep) {
  if (options_.memory_limit <= 0) return 0;
  MutexLock lock(&mutex_);
  auto held = held_.end();
  while (held != held_.begin() && Resident() + bytes > options_.memory_limit) {
    --held;
    if (held->model.get() == keep) continue;
    spdlog::info("model {} given back to make room for {} bytes", held->directory, bytes);
    const auto unwanted = held++;
    Drop(unwanted);
  }
  return options_.memory_limit - Resident();
}

void ModelCache::Drop(std::list<Held>::iterator held) {
  held_.erase(held);
  malloc_trim(0);  // the allocator is told to keep freed memory; here it must not
  if (options_.metrics != nullptr) options_.metrics->ResidentModels(static_cast<double>(Resident()));
}

int64_t ModelCache::Resident() const {
  int64_t bytes = 0;
  for (const Held& held : held_) bytes += held.model->bytes;
  return bytes;
}

v1::WeightsHash ModelCache::Hash(const std::string& model,
                                 absl::FunctionRef<bool(int64_t done, int64_t total)> keep_going) const {
  v1::WeightsHash answer;
  answer.set_model(model);
  const auto fill = [&]() -> absl::Status {
    ROPELAB_ASSIGN_OR_RETURN(const FoundModel found, FindModel(options_.roots, model));
    ROPELAB_ASSIGN_OR_RETURN(const formats::ModelConfig config, formats::ReadConfig(found.directory));
    answer.set_config_hash(formats::ConfigHash(config));
    ROPELAB_ASSIGN_OR_RETURN(*answer.mutable_weights_hash(),
                             formats::WeightsHash(found.directory, options_.cache_dir, keep_going));
    if (auto report = ReadVerification(options_.cache_dir, answer.weights_hash(), answer.config_hash()))
      *answer.mutable_verification() = *std::move(report);
    return absl::OkStatus();
  };
  if (const absl::Status status = fill(); !status.ok())
    answer.set_problem(Printable(std::string(status.message()), kProblemBytes));
  return answer;
}

std::string ModelCache::MostRecentWeightsHash() const {
  MutexLock lock(&mutex_);
  return held_.empty() ? "" : held_.front().identity.weights_hash();
}

}  // namespace ropelab::session
