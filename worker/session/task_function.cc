#include "worker/session/task_function.h"

#include "absl/strings/str_cat.h"
#include "common/service/canonical_hash.h"
#include "common/status_macros.h"
#include "worker/measure/texts.h"

namespace ropelab::session {
namespace {

// The corpora as one task sees them: a fetch stops when the task's lease is gone.
class TaskTexts : public measure::Texts {
 public:
  TaskTexts(CorpusCache* cache, measure::Recorder* recorder) : cache_(cache), recorder_(recorder) {}
  absl::StatusOr<std::string> Document(const std::string& corpus, int64_t document) override {
    return cache_->Document(corpus, document, [this](int64_t done, int64_t total) {
      return recorder_->Progress(static_cast<double>(done), static_cast<double>(total));
    });
  }

 private:
  CorpusCache* const cache_;
  measure::Recorder* const recorder_;
};

absl::StatusOr<measure::Outcome> RunTask(const TaskCaches& caches, const v1::Grant& grant,
                                         absl::FunctionRef<void(bool)> loading, measure::Recorder& recorder) {
  ModelCache& cache = *caches.models;
  const v1::Measurement& measurement = grant.measurement();
  if (!grant.key().empty() && CanonicalHash(measurement) != grant.key()) {
    return absl::AbortedError(absl::StrCat("the measurement that came does not have the key ",
                                           grant.key().substr(0, 16),
                                           " that came with it: it was damaged on the way, or this worker is "
                                           "older than the server; update the older one"));
  }
  const measure::Needs needs = measure::NeedsOf(measurement);
  std::shared_ptr<const formats::Tokenizer> tokenizer;
  if (needs.tokenizer) {
    ROPELAB_ASSIGN_OR_RETURN(tokenizer, caches.tokenizers->Get(grant));
  }
  TaskTexts texts(caches.corpora, &recorder);
  measure::Resources resources = {nullptr, tokenizer.get(), &texts};
  if (!needs.model) {  // nor any weights in memory for it
    return measure::Measure(measurement, resources, {cache.MakeRoom(0, nullptr)}, recorder);
  }
  ROPELAB_ASSIGN_OR_RETURN(const std::shared_ptr<const model::LoadedModel> model,
                           cache.Get(grant, loading, recorder));
  resources.model = model.get();
  ROPELAB_ASSIGN_OR_RETURN(const int64_t needed, measure::ActivationBytes(measurement, *model));
  const int64_t room = cache.MakeRoom(needed, model.get());
  if (room != 0 && needed > room) {
    return absl::FailedPreconditionError(
        absl::StrCat("activations: the task needs up to ", needed, " bytes beside the ", model->bytes,
                     " of model ", grant.model(), ", and of --memory-limit ", room,
                     " are left; shorten the prompts, raise the limit or use a worker with more memory"));
  }
  ROPELAB_ASSIGN_OR_RETURN(measure::Outcome outcome,
                           measure::Measure(measurement, resources, {room}, recorder));
  ROPELAB_RETURN_IF_ERROR(cache.CheckUnchanged(grant));
  return outcome;
}

}  // namespace

TaskFunction MakeTaskFunction(const TaskCaches& caches) {
  return [caches](const v1::Grant& grant, absl::FunctionRef<void(bool)> loading,
                  measure::Recorder& recorder) { return RunTask(caches, grant, loading, recorder); };
}

}  // namespace ropelab::session
