#include "server/schedule/scheduler.h"

#include <algorithm>
#include <utility>

namespace ropelab::schedule {

Priority PriorityOf(const std::string& name) {
  if (name == "interactive") {
    return Priority::kInteractive;
  }
  return name == "batch" ? Priority::kBatch : Priority::kNormal;
}

std::vector<int64_t> Scheduler::OpenSession(SessionFacts facts, int64_t now_ns) {
  std::vector<int64_t> closed;
  for (const auto& [epoch, session] : sessions_) {
    if (session.facts.worker == facts.worker) {
      closed.push_back(epoch);
    }
  }
  for (const int64_t epoch : closed) {
    CloseSession(epoch, now_ns);
  }
  const int64_t epoch = facts.epoch;
  sessions_[epoch] = Session{std::move(facts), SessionState::kActive, now_ns};
  return closed;
}

void Scheduler::DrainSession(int64_t epoch) {
  const auto found = sessions_.find(epoch);
  if (found != sessions_.end() && IsLegalMove(found->second.state, SessionState::kDraining)) {
    found->second.state = SessionState::kDraining;
  }
}

void Scheduler::CloseSession(int64_t epoch, int64_t now_ns) {
  if (sessions_.erase(epoch) > 0) {
    leases_.Detach(epoch, now_ns);
  }
}

void Scheduler::AddModel(int64_t epoch, SessionModel model) {
  const auto found = sessions_.find(epoch);
  if (found == sessions_.end()) {
    return;
  }
  std::vector<SessionModel>& models = found->second.facts.models;
  const auto known = std::find_if(models.begin(), models.end(),
                                  [&](const SessionModel& held) { return held.name == model.name; });
  if (known != models.end()) {
    *known = std::move(model);
  } else {
    models.push_back(std::move(model));
  }
}

void Scheduler::CannotHash(int64_t epoch, const std::string& name) {
  const auto found = sessions_.find(epoch);
  if (found == sessions_.end()) {
    return;
  }
  for (SessionModel& model : found->second.facts.models) {
    model.cannot_hash = model.cannot_hash || model.name == name;
  }
}

void Scheduler::Heard(int64_t epoch, int64_t now_ns) {
  const auto found = sessions_.find(epoch);
  if (found != sessions_.end()) {
    found->second.heard_ns = now_ns;
  }
}

const Session* Scheduler::FindSession(int64_t epoch) const {
  const auto found = sessions_.find(epoch);
  return found == sessions_.end() ? nullptr : &found->second;
}

std::vector<int64_t> Scheduler::SilentSessions(int64_t now_ns) const {
  std::vector<int64_t> silent;
  for (const auto& [epoch, session] : sessions_) {
    if (now_ns - session.heard_ns >= policy_.times.lease_ns) {
      silent.push_back(epoch);
    }
  }
  return silent;
}

void Scheduler::AddExperiment(const ExperimentFacts& facts) {
  experiments_[facts.id].facts = facts;
}

void Scheduler::Pinned(int64_t experiment, const std::string& numerics_class) {
  const auto found = experiments_.find(experiment);
  if (found != experiments_.end()) {
    found->second.pinning = false;
    found->second.facts.numerics_class = numerics_class;
  }
}

void Scheduler::PinFailed(int64_t experiment) {
  const auto found = experiments_.find(experiment);
  if (found != experiments_.end()) {
    found->second.pinning = false;
  }
}

void Scheduler::SetTasks(int64_t experiment, const std::vector<TaskFacts>& tasks) {
  const auto found = experiments_.find(experiment);
  if (found == experiments_.end()) {
    return;
  }
  std::set<int64_t> wanted;
  for (const TaskFacts& facts : tasks) {
    wanted.insert(facts.task);
  }
  const std::set<int64_t> before = found->second.unfinished;
  for (const int64_t task : before) {
    if (!wanted.contains(task)) {
      Forget(experiment, task, nullptr);
    }
  }
  for (const TaskFacts& facts : tasks) {
    const auto [place, is_new] = tasks_.try_emplace(facts.task);
    Task& task = place->second;
    if (is_new) {
      task.facts = facts;
    }
    Dequeue(task);
    task.wanted_by[experiment] = facts.index;
    found->second.unfinished.insert(facts.task);
    if (Lease* lease = leases_.Find(facts.task); lease != nullptr) {
      lease->experiment = lease->experiment == 0 ? experiment : lease->experiment;
    } else if (task.not_before_ns == 0) {
      Enqueue(task);
    }
  }
}

bool Scheduler::HasUnfinishedTasks(int64_t experiment) const {
  return UnfinishedTasks(experiment) > 0;
}

int64_t Scheduler::UnfinishedTasks(int64_t experiment) const {
  const auto found = experiments_.find(experiment);
  return found == experiments_.end() ? 0 : static_cast<int64_t>(found->second.unfinished.size());
}

std::vector<int64_t> Scheduler::RemoveExperiment(int64_t experiment) {
  std::vector<int64_t> unwanted;
  const auto found = experiments_.find(experiment);
  if (found == experiments_.end()) {
    return unwanted;
  }
  const std::set<int64_t> tasks = found->second.unfinished;
  for (const int64_t task : tasks) {
    Forget(experiment, task, &unwanted);
  }
  experiments_.erase(experiment);
  return unwanted;
}

std::vector<int64_t> Scheduler::ExperimentsOf(int64_t task) const {
  std::vector<int64_t> experiments;
  const auto found = tasks_.find(task);
  if (found != tasks_.end()) {
    for (const auto& [experiment, index] : found->second.wanted_by) {
      experiments.push_back(experiment);
    }
  }
  return experiments;
}

int64_t Scheduler::ChargedAttempts(int64_t task) const {
  const auto found = tasks_.find(task);
  return found == tasks_.end() ? 0 : found->second.facts.charged_attempts;
}

void Scheduler::TakeOverLease(int64_t task, int64_t attempt, int64_t epoch, const std::string& worker,
                              const std::string& incarnation, int64_t now_ns) {
  Lease lease;
  lease.task = task;
  lease.attempt = attempt;
  lease.epoch = epoch;
  lease.worker = worker;
  lease.incarnation = incarnation;
  lease.phase = LeasePhase::kAhead;
  lease.ahead = true;
  leases_.Insert(std::move(lease), now_ns);
}

std::vector<int64_t> Scheduler::TaskDone(int64_t task, int64_t now_ns) {
  if (const Lease* lease = leases_.Find(task); lease != nullptr) {
    ChargeOwner(*lease, now_ns);
    leases_.Erase(task);
  }
  const std::vector<int64_t> experiments = ExperimentsOf(task);
  for (const int64_t experiment : experiments) {
    Forget(experiment, task, nullptr);
  }
  return experiments;
}

std::vector<int64_t> Scheduler::TaskPending(int64_t task, bool charged, const std::string& cause,
                                            int64_t now_ns) {
  if (const Lease* lease = leases_.Find(task); lease != nullptr) {
    ChargeOwner(*lease, now_ns);
    leases_.Erase(task);
  }
  const auto found = tasks_.find(task);
  if (found == tasks_.end()) {
    return {};
  }
  if (charged) {
    const int64_t doublings = std::min<int64_t>(found->second.facts.charged_attempts++, 20);
    Delay(task, std::min(policy_.first_back_off_ns << doublings, policy_.longest_back_off_ns), cause, now_ns);
  } else {
    Enqueue(found->second);
  }
  return ExperimentsOf(task);
}

void Scheduler::Delay(int64_t task, int64_t delay_ns, const std::string& cause, int64_t now_ns) {
  leases_.Erase(task);
  const auto found = tasks_.find(task);
  if (found == tasks_.end()) {
    return;
  }
  Dequeue(found->second);
  backing_off_.erase({found->second.not_before_ns, task});
  found->second.not_before_ns = now_ns + delay_ns;
  found->second.last_cause = cause;
  backing_off_.insert({found->second.not_before_ns, task});
}

void Scheduler::ReleaseBackedOff(int64_t now_ns) {
  while (!backing_off_.empty() && backing_off_.begin()->first <= now_ns) {
    const int64_t task = backing_off_.begin()->second;
    backing_off_.erase(backing_off_.begin());
    const auto found = tasks_.find(task);
    if (found != tasks_.end()) {
      found->second.not_before_ns = 0;
      Enqueue(found->second);
    }
  }
}

void Scheduler::Enqueue(const Task& task) {
  for (const auto& [id, index] : task.wanted_by) {
    Experiment& experiment = experiments_.at(id);
    if (experiment.pending[NeedsOf(task.facts)].insert({index, task.facts.task}).second) {
      ++experiment.pending_count;
    }
  }
}

void Scheduler::Dequeue(const Task& task) {
  for (const auto& [id, index] : task.wanted_by) {
    Experiment& experiment = experiments_.at(id);
    const auto group = experiment.pending.find(NeedsOf(task.facts));
    if (group == experiment.pending.end()) {
      continue;
    }
    experiment.pending_count -= static_cast<int64_t>(group->second.erase({index, task.facts.task}));
    if (group->second.empty()) {
      experiment.pending.erase(group);
    }
  }
}

void Scheduler::Forget(int64_t experiment, int64_t task, std::vector<int64_t>* unwanted) {
  const auto found = tasks_.find(task);
  if (found == tasks_.end()) {
    return;
  }
  Dequeue(found->second);
  found->second.wanted_by.erase(experiment);
  experiments_.at(experiment).unfinished.erase(task);
  const bool leased = leases_.Find(task) != nullptr;
  if (found->second.wanted_by.empty()) {
    if (leased && unwanted != nullptr) {
      unwanted->push_back(task);
    }
    backing_off_.erase({found->second.not_before_ns, task});
    tasks_.erase(found);
  } else if (!leased && found->second.not_before_ns == 0) {
    Enqueue(found->second);
  }
}

void Scheduler::ChargeOwner(const Lease& lease, int64_t now_ns) {
  const auto found = experiments_.find(lease.experiment);
  if (found != experiments_.end() && lease.started_ns > 0) {
    fair_share_.Charge(found->second.facts.owner, static_cast<double>(now_ns - lease.started_ns) * 1e-9,
                       now_ns);
  }
}

}  // namespace ropelab::schedule
