// Everything that does not run says why.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/schedule/scheduler.h"

namespace ropelab::schedule {
namespace {

std::string ShownHash(const std::string& hash) {
  constexpr size_t kDigits = 16;
  return hash.empty() ? "none" : hash.substr(0, kDigits);
}

}  // namespace

const char* NameOf(Waiting::Kind kind) {
  switch (kind) {
    case Waiting::Kind::kNot:
      return "none";
    case Waiting::Kind::kNoWorker:
      return "no_worker";
    case Waiting::Kind::kNoModel:
      return "no_model";
    case Waiting::Kind::kNoClass:
      return "no_class";
    case Waiting::Kind::kDraining:
      return "draining";
    case Waiting::Kind::kBusy:
      return "busy";
    case Waiting::Kind::kBackOff:
      return "back_off";
    case Waiting::Kind::kPinning:
      return "pinning";
  }
  return "unknown";
}

int64_t Scheduler::RunningTasks(int64_t experiment) const {
  const auto found = experiments_.find(experiment);
  if (found == experiments_.end()) {
    return 0;
  }
  int64_t running = 0;
  for (const auto& [task, lease] : leases_.all()) {
    running += found->second.unfinished.contains(task);
  }
  return running;
}

double Scheduler::RunningProgress(int64_t experiment) const {
  const auto found = experiments_.find(experiment);
  if (found == experiments_.end()) {
    return 0;
  }
  double progress = 0;
  for (const auto& [task, lease] : leases_.all()) {
    if (lease.total > 0 && found->second.unfinished.contains(task)) {
      progress += std::clamp(lease.done / lease.total, 0.0, 1.0);
    }
  }
  return progress;
}

Waiting Scheduler::NoModel(const Experiment& experiment, const TaskFacts& task) const {
  const ModelNeeds needs = NeedsOf(task);
  const std::string& wanted_class = experiment.facts.numerics_class;
  if (needs.weights_hash.empty()) {
    return {Waiting::Kind::kNoModel,
            absl::StrCat("no connected worker holds a model with the tokenizer of ", task.model, ", ",
                         ShownHash(needs.tokenizer_hash)),
            task.model};
  }
  for (const auto& [epoch, session] : sessions_) {
    if (!wanted_class.empty() && session.facts.numerics_class != wanted_class) {
      continue;
    }
    const SessionModel* held = session.facts.ModelFor({needs.weights_hash, "", ""});
    if (held == nullptr) {
      continue;
    }
    const bool tokenizer = held->Serves({needs.weights_hash, needs.config_hash, ""});
    return {Waiting::Kind::kNoModel,
            absl::StrCat("no connected worker holds model ", task.model, " with the ",
                         tokenizer ? "tokenizer" : "config", " that this experiment was planned with, ",
                         ShownHash(tokenizer ? needs.tokenizer_hash : needs.config_hash), " (worker ",
                         session.facts.worker, " has its weights as ", held->name, " with ",
                         ShownHash(tokenizer ? held->tokenizer_hash : held->config_hash), "): put that ",
                         tokenizer ? "tokenizer.json" : "config.json",
                         " beside the weights again, or cancel and submit again"),
            task.model, /*held_otherwise=*/true};
  }
  for (const auto& [epoch, session] : sessions_) {
    if (!wanted_class.empty() && session.facts.numerics_class != wanted_class) {
      continue;
    }
    for (const SessionModel& held : session.facts.models) {
      if (held.name == task.model && !held.weights_hash.empty() && held.weights_hash != needs.weights_hash) {
        return {Waiting::Kind::kNoModel,
                absl::StrCat("no connected worker holds model ", task.model, " with the weights that this ",
                             "experiment was planned with, ", ShownHash(needs.weights_hash), " (worker ",
                             session.facts.worker, " has ", ShownHash(held.weights_hash),
                             " under this name): put those files back, or cancel and submit again"),
                task.model, /*held_otherwise=*/true};
      }
    }
  }
  return {Waiting::Kind::kNoModel, absl::StrCat("no connected worker holds model ", task.model), task.model};
}

Waiting Scheduler::WhyWaiting(int64_t id, int64_t now_ns) const {
  const auto found = experiments_.find(id);
  if (found == experiments_.end() || found->second.unfinished.empty()) {
    return {};
  }
  const Experiment& experiment = found->second;
  const std::string& wanted_class = experiment.facts.numerics_class;
  if (RunningTasks(id) > 0) {
    return {};
  }
  if (experiment.pinning) {
    return {Waiting::Kind::kPinning, "being pinned to a numerics class", ""};
  }
  if (sessions_.empty()) {
    return {Waiting::Kind::kNoWorker, "no worker is connected", ""};
  }
  // A task that backs off says more than a busy worker does, but only if nothing else is pending.
  if (experiment.pending_count == 0) {
    int64_t soonest_ns = 0;
    std::string cause;
    for (const int64_t id_of_task : experiment.unfinished) {
      const Task& task = tasks_.at(id_of_task);
      if (task.not_before_ns > 0 && (soonest_ns == 0 || task.not_before_ns < soonest_ns)) {
        soonest_ns = task.not_before_ns;
        cause = task.last_cause;
      }
    }
    return {Waiting::Kind::kBackOff,
            absl::StrFormat("backing off for another %.1f s after: %s",
                            static_cast<double>(std::max<int64_t>(soonest_ns - now_ns, 0)) * 1e-9, cause),
            ""};
  }
  int64_t of_class = 0, with_model = 0, active = 0;
  for (const auto& [epoch, session] : sessions_) {
    if (!wanted_class.empty() && session.facts.numerics_class != wanted_class) {
      continue;
    }
    ++of_class;
    if (FirstEligible(experiment, session).has_value()) {
      ++with_model;
      active += session.state == SessionState::kActive;
    }
  }
  if (of_class == 0) {
    return {Waiting::Kind::kNoClass,
            absl::StrCat("no worker of numerics class ", wanted_class, " is connected (", sessions_.size(),
                         " of other classes are)"),
            ""};
  }
  if (with_model == 0) {
    return NoModel(experiment, tasks_.at(experiment.pending.begin()->second.begin()->second).facts);
  }
  if (active == 0) {
    return {Waiting::Kind::kDraining, "every worker that could run it is draining", ""};
  }
  return {Waiting::Kind::kBusy, absl::StrCat("waiting for a free worker (", active, " could run it)"), ""};
}

}  // namespace ropelab::schedule
