// The choice: which session gets which task.
#include <algorithm>
#include <tuple>

#include "server/schedule/scheduler.h"

namespace ropelab::schedule {

std::vector<Scheduler::Experiment*> Scheduler::InOrder(int64_t now_ns) {
  // Device-seconds of leases that still run count too, or an owner with many workers would be charged only
  // afterwards.
  std::map<std::string, double> running;
  for (const auto& [task, lease] : leases_.all()) {
    const auto found = experiments_.find(lease.experiment);
    if (found != experiments_.end() && lease.started_ns > 0) {
      running[found->second.facts.owner] += static_cast<double>(now_ns - lease.started_ns) * 1e-9;
    }
  }
  std::vector<std::tuple<Priority, double, int64_t, Experiment*>> keyed;
  for (auto& [id, experiment] : experiments_) {
    if (experiment.pending_count > 0 && !experiment.pinning) {
      const std::string& owner = experiment.facts.owner;
      keyed.emplace_back(experiment.facts.priority, fair_share_.Usage(owner, now_ns) + running[owner], id,
                         &experiment);
    }
  }
  std::sort(keyed.begin(), keyed.end(), [](const auto& a, const auto& b) {
    return std::tie(std::get<0>(a), std::get<1>(a), std::get<2>(a)) <
           std::tie(std::get<0>(b), std::get<1>(b), std::get<2>(b));
  });
  std::vector<Experiment*> order;
  for (const auto& entry : keyed) {
    order.push_back(std::get<3>(entry));
  }
  return order;
}

bool Scheduler::HasRoom(int64_t epoch, bool ahead) const {
  int64_t held = 0, waiting = 0;
  for (const auto& [task, lease] : leases_.all()) {
    if (lease.epoch != epoch || !lease.attached) {
      continue;
    }
    ++held;
    waiting += lease.phase == LeasePhase::kAhead || (lease.phase == LeasePhase::kOpening && lease.ahead);
  }
  return ahead ? held == 1 && waiting == 0 : held == 0;
}

bool Scheduler::FitsSomewhere(const Experiment& experiment, const TaskFacts& task) const {
  const std::string& wanted_class = experiment.facts.numerics_class;
  const ModelNeeds needs = NeedsOf(task);
  return std::any_of(sessions_.begin(), sessions_.end(), [&](const auto& entry) {
    const SessionFacts& facts = entry.second.facts;
    return (wanted_class.empty() || wanted_class == facts.numerics_class) &&
           (facts.memory_bytes == 0 || facts.memory_bytes >= task.weights_bytes) &&
           std::any_of(facts.models.begin(), facts.models.end(),
                       [&](const SessionModel& model) { return model.MayServe(needs, task.model); });
  });
}

std::optional<int64_t> Scheduler::FirstEligible(const Experiment& experiment, const Session& session) const {
  const auto& wanted_class = experiment.facts.numerics_class;
  if (!wanted_class.empty() && wanted_class != session.facts.numerics_class) {
    return std::nullopt;
  }
  std::optional<Place> best;
  for (const auto& [needs, places] : experiment.pending) {
    if (!needs.none() && session.facts.ModelFor(needs) == nullptr) {
      continue;
    }
    const TaskFacts& first = tasks_.at(places.begin()->second).facts;
    if (session.facts.memory_bytes > 0 && first.weights_bytes > session.facts.memory_bytes &&
        FitsSomewhere(experiment, first)) {
      continue;
    }
    if (!best.has_value() || *places.begin() < *best) {
      best = *places.begin();
    }
  }
  return best.has_value() ? std::optional<int64_t>(best->second) : std::nullopt;
}

std::optional<Decision> Scheduler::DecideFor(const Session& session, bool ahead,
                                             const std::vector<Experiment*>& order, int64_t now_ns) {
  for (Experiment* experiment : order) {
    const std::optional<int64_t> task = FirstEligible(*experiment, session);
    if (!task.has_value()) {
      continue;
    }
    if (ahead && experiment->pending_count < static_cast<int64_t>(sessions_.size())) {
      continue;
    }
    Decision decision;
    decision.experiment = experiment->facts.id;
    decision.epoch = session.facts.epoch;
    if (experiment->facts.numerics_class.empty()) {
      decision.kind = Decision::Kind::kPin;
      decision.numerics_class = session.facts.numerics_class;
      experiment->pinning = true;
      return decision;
    }
    decision.task = *task;
    decision.ahead = ahead;
    const TaskFacts& facts = tasks_.at(*task).facts;
    if (const ModelNeeds needs = NeedsOf(facts); !needs.none()) {
      decision.model = session.facts.ModelFor(needs, facts.model)->name;  // FirstEligible found one
    }
    Dequeue(tasks_.at(*task));
    Lease lease;
    lease.task = *task;
    lease.epoch = session.facts.epoch;
    lease.attached = true;
    lease.worker = session.facts.worker;
    lease.incarnation = session.facts.incarnation;
    lease.ahead = ahead;
    lease.experiment = decision.experiment;
    leases_.Insert(std::move(lease), now_ns);
    return decision;
  }
  return std::nullopt;
}

std::optional<Decision> Scheduler::Next(int64_t now_ns) {
  ReleaseBackedOff(now_ns);
  const std::vector<Experiment*> order = InOrder(now_ns);
  if (order.empty()) {
    return std::nullopt;
  }
  for (const bool ahead : {false, true}) {
    for (const auto& [epoch, session] : sessions_) {
      if (session.state != SessionState::kActive || !HasRoom(epoch, ahead)) {
        continue;
      }
      if (auto decision = DecideFor(session, ahead, order, now_ns); decision.has_value()) {
        return decision;
      }
    }
  }
  return std::nullopt;
}

}  // namespace ropelab::schedule
