#include "worker/session/task_function.h"

#include "absl/strings/str_cat.h"
#include "common/service/canonical_hash.h"
#include "common/status_macros.h"

namespace ropelab::session {
namespace {

absl::StatusOr<measure::Outcome> RunTask(ModelCache& cache, const v1::Grant& grant,
                                         absl::FunctionRef<void(bool)> loading, measure::Recorder& recorder) {
  const v1::Measurement& measurement = grant.measurement();
  if (!grant.key().empty() && CanonicalHash(measurement) != grant.key()) {
    return absl::AbortedError(absl::StrCat("the measurement that came does not have the key ",
                                           grant.key().substr(0, 16),
                                           " that came with it: it was damaged on the way, or this worker is "
                                           "older than the server; update the older one"));
  }
  if (!measurement.has_model()) {
    return measure::Measure(measurement, nullptr, {cache.MakeRoom(0, nullptr)}, recorder);
  }
  ROPELAB_ASSIGN_OR_RETURN(const std::shared_ptr<const model::LoadedModel> model,
                           cache.Get(grant, loading, recorder));
  ROPELAB_ASSIGN_OR_RETURN(const int64_t needed, measure::ActivationBytes(measurement, *model));
  const int64_t room = cache.MakeRoom(needed, model.get());
  if (room != 0 && needed > room) {
    return absl::FailedPreconditionError(
        absl::StrCat("activations: the task needs up to ", needed, " bytes beside the ", model->bytes,
                     " of model ", grant.model(), ", and of --memory-limit ", room,
                     " are left; shorten the prompts, raise the limit or use a worker with more memory"));
  }
  ROPELAB_ASSIGN_OR_RETURN(measure::Outcome outcome,
                           measure::Measure(measurement, model.get(), {room}, recorder));
  ROPELAB_RETURN_IF_ERROR(cache.CheckUnchanged(grant));
  return outcome;
}

}  // namespace

TaskFunction MakeTaskFunction(ModelCache* cache) {
  return [cache](const v1::Grant& grant, absl::FunctionRef<void(bool)> loading, measure::Recorder& recorder) {
    return RunTask(*cache, grant, loading, recorder);
  };
}

}  // namespace ropelab::session
