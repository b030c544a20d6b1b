// Experiments in motion: waiting for hashes, planned stage by stage, measured, reduced, or ended early.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/api/coordinator_impl.h"
#include "server/api/experiment_service_describe.h"
#include "spdlog/spdlog.h"

namespace ropelab::api {
namespace {

std::vector<ModelLine> ParseModels(const std::string& lines) {
  std::vector<ModelLine> models;
  for (const std::string& line : Lines(lines)) {
    models.push_back(ParseModelLine(line));
  }
  return models;
}

// Of all weights as a worker holds them.
int64_t BytesAt(v1::Dtype::Value dtype, const v1::ModelConfig& config) {
  if (dtype == v1::Dtype::INT8) {  // the vocabulary's matrices stay wide
    const int64_t wide = (config.tied_embeddings() ? 1 : 2) * config.vocabulary() * config.hidden_size();
    return config.parameters() + 3 * wide;
  }
  return config.parameters() * (dtype == v1::Dtype::FLOAT32 ? 4 : 2);
}

}  // namespace

LiveEntry* CoordinatorImpl::FindEntry(int64_t experiment) {
  const auto found = experiments_.find(experiment);
  return found == experiments_.end() ? nullptr : &found->second;
}

void CoordinatorImpl::ExperimentSubmitted(int64_t experiment) {
  Post([this, experiment] {
    auto row = std::make_shared<store::ExperimentRow>();
    // In the writer's order, like every row that the live state is built from.
    WriteDurably(
        [experiment, row](store::Connection& db) -> absl::Status {
          ROPELAB_ASSIGN_OR_RETURN(*row, store::GetExperiment(db, experiment));
          return absl::OkStatus();
        },
        [this, experiment, row](absl::Status status) {
          if (!status.ok()) {
            spdlog::error("experiment e{} cannot be taken up: {}", experiment, std::string(status.message()));
          } else if (!IsFinalState(row->state) && FindEntry(experiment) == nullptr) {
            TakeUp(std::move(*row));
          }
        });
  });
}

void CoordinatorImpl::TakeUp(store::ExperimentRow row) {
  const int64_t id = row.id;
  LiveEntry& entry = experiments_[id];
  auto spec = std::make_shared<v1::ExperimentSpec>();
  const bool parsed = spec->ParseFromString(row.spec);
  entry.spec = spec;
  entry.models = ParseModels(row.models);
  entry.running = row.state == "running" || row.state == "reducing";
  row.spec.clear();
  row.typed_spec.clear();
  if (row.numerics_class.empty()) {
    row.numerics_class = spec->numerics();
  }
  entry.row = std::move(row);
  schedule::ExperimentFacts facts;
  facts.id = id;
  facts.priority = schedule::PriorityOf(entry.row.priority);
  facts.owner = entry.row.owner;
  facts.numerics_class = entry.row.numerics_class;
  scheduler_.AddExperiment(facts);
  if (!parsed) {
    FailExperiment(id, "the stored spec does not parse");
    return;
  }
  AwaitSources(entry);
}

void CoordinatorImpl::SetReason(LiveEntry& entry, std::string reason) {
  if (entry.reason != reason) {
    entry.reason = std::move(reason);
    NotifyChanged(entry.row.id);
  }
}

void CoordinatorImpl::Advance(LiveEntry& entry) {
  entry.phase = LiveEntry::Phase::kPlanning;
  auto input = std::make_shared<AdvanceInput>();
  const int64_t id = entry.row.id;
  input->experiment = id;
  input->kind = entry.row.kind;
  input->spec_hash = entry.row.spec_hash;
  input->numerics_class = entry.row.numerics_class;
  input->spec = entry.spec;
  input->sources = entry.sources;
  for (const ModelLine& model : entry.models) {
    experiments::ModelFacts facts;
    facts.name = model.name;
    facts.weights_hash = model.weights_hash;
    if (const v1::ModelAnnouncement* known = KnownModel(model); known != nullptr) {
      facts.config_hash = known->config_hash();
      facts.tokenizer_hash = known->tokenizer_hash();
      facts.bytes = known->bytes();
      facts.config = known->config();
    }
    input->models.push_back(std::move(facts));
  }
  planners_->Continue([this, mailbox = mailbox_, id, input] {
    AdvanceHooks hooks;
    hooks.stopping = [this] { return stopping_.load(); };
    hooks.entered = [this, mailbox, id](const char* phase) {
      mailbox->Post([this, id, name = std::string(phase)] {
        if (LiveEntry* moving = FindEntry(id); moving != nullptr && !moving->ending) {
          moving->phase = name == "reducing" ? LiveEntry::Phase::kReducing : LiveEntry::Phase::kPlanning;
          SetReason(*moving, name == "reducing" ? "" : "planning");
          NotifyChanged(id);
        }
      });
    };
    auto advanced = AdvanceExperiment(store_, clock_, *input, hooks);
    mailbox->Post([this, id, advanced = std::move(advanced)] { OnAdvanced(id, advanced); });
  });
}

void CoordinatorImpl::OnAdvanced(int64_t id, const absl::StatusOr<Advanced>& advanced) {
  LiveEntry* entry = FindEntry(id);
  if (entry == nullptr || entry->ending) {
    return;
  }
  if (!advanced.ok()) {
    FailExperiment(id, std::string(advanced.status().message()));
    return;
  }
  switch (advanced->kind) {
    case Advanced::Kind::kStageReady:
      LoadStage(id);
      break;
    case Advanced::Kind::kDone:
      spdlog::info("experiment e{} is done: result digest {}", id, advanced->result_digest);
      metrics_.reduce_seconds.Observe(advanced->reduce_seconds);
      RemoveExperiment(id);
      break;
    case Advanced::Kind::kAbandoned:
      break;  // a cancel is on its way here, or the server stops
  }
}

void CoordinatorImpl::LoadStage(int64_t id) {
  struct Loaded {
    int64_t stage = 0;
    std::vector<store::TaskRow> tasks;
  };
  auto loaded = std::make_shared<Loaded>();
  // Through the writer, though it only reads: so what it sees and what the coordinator has heard of agree.
  WriteDurably(
      [id, loaded](store::Connection& db) -> absl::Status {
        ROPELAB_ASSIGN_OR_RETURN(const auto stages, store::StagesOf(db, id));
        if (stages.empty()) {
          return absl::InternalError(absl::StrCat("experiment e", id, " has no stage to run"));
        }
        loaded->stage = stages.back().stage;
        ROPELAB_ASSIGN_OR_RETURN(loaded->tasks, store::TasksOf(db, id, loaded->stage));
        return absl::OkStatus();
      },
      [this, id, loaded](absl::Status status) {
        if (!status.ok()) {
          FailExperiment(id, std::string(status.message()));
        } else {
          OnStageLoaded(id, loaded->stage, loaded->tasks);
        }
      });
}

int64_t CoordinatorImpl::WeightsBytes(const LiveEntry& entry, const store::TaskRow& task) const {
  const v1::ModelAnnouncement* model =
      task.weights_hash.empty() ? nullptr : KnownModel({task.model, task.weights_hash});
  if (model == nullptr) {
    return 0;
  }
  const v1::ModelConfig& config = model->config();
  if (!entry.spec->has_precision_test()) {
    return BytesAt(entry.spec->has_dtype() ? entry.spec->dtype() : config.dtype(), config);
  }
  // It has no dtype of its own, and a task's row does not tell which of its several it loads.
  int64_t most = 0;
  for (const int dtype : entry.spec->precision_test().dtypes()) {
    most = std::max(most, BytesAt(static_cast<v1::Dtype::Value>(dtype), config));
  }
  return most;
}

void CoordinatorImpl::OnStageLoaded(int64_t id, int64_t stage, const std::vector<store::TaskRow>& tasks) {
  LiveEntry* entry = FindEntry(id);
  if (entry == nullptr || entry->ending) {
    return;
  }
  std::vector<schedule::TaskFacts> unfinished;
  for (const store::TaskRow& task : tasks) {
    if (task.state == "failed" || task.state == "poisoned") {
      FailExperiment(id, absl::StrCat("task ", task.id, " is ", task.state, ": ", task.cause));
      return;
    }
    if (task.state != "finished") {
      unfinished.push_back({task.id, task.index, task.kind, task.model, task.weights_hash,
                            task.charged_attempts, task.tokenizer_hash, WeightsBytes(*entry, task),
                            task.config_hash});
    }
  }
  if (entry->stage != stage || entry->phase != LiveEntry::Phase::kMeasuring) {
    spdlog::info("experiment e{} stage {}: {} of {} tasks to measure", id, stage, unfinished.size(),
                 tasks.size());
  }
  entry->stage = stage;
  entry->phase = LiveEntry::Phase::kMeasuring;
  SetReason(*entry, "");
  scheduler_.SetTasks(id, unfinished);
  NotifyChanged(id);
  CompleteStageIfDone(*entry);
}

void CoordinatorImpl::OnTasksMoved(const std::vector<int64_t>& experiments) {
  for (const int64_t id : experiments) {
    LiveEntry* entry = FindEntry(id);
    if (entry == nullptr) {
      continue;
    }
    NotifyChanged(id);
    CompleteStageIfDone(*entry);
  }
}

void CoordinatorImpl::CompleteStageIfDone(LiveEntry& entry) {
  if (entry.ending || entry.phase != LiveEntry::Phase::kMeasuring ||
      scheduler_.HasUnfinishedTasks(entry.row.id)) {
    return;
  }
  entry.phase = LiveEntry::Phase::kPlanning;
  const int64_t id = entry.row.id;
  const int64_t stage = entry.stage;
  spdlog::info("experiment e{} stage {} is complete", id, stage);
  WriteDurably([id, stage](store::Connection& db) { return store::CompleteStage(db, id, stage); },
               [this, id](absl::Status status) {
                 LiveEntry* completed = FindEntry(id);
                 if (completed == nullptr || completed->ending) {
                   return;
                 }
                 if (!status.ok()) {
                   FailExperiment(id, std::string(status.message()));
                   return;
                 }
                 Advance(*completed);
               });
}

void CoordinatorImpl::FailExperiment(int64_t id, const std::string& cause) {
  LiveEntry* entry = FindEntry(id);
  if (entry == nullptr || entry->ending) {
    return;
  }
  entry->ending = true;
  spdlog::error("experiment e{} fails: {}", id, cause);
  WriteDurably(
      [id, cause, now_us = WallNow()](store::Connection& db) -> absl::Status {
        ROPELAB_RETURN_IF_ERROR(store::SetExperimentState(db, id, "failed", cause, now_us).status());
        return store::DetachExperiment(db, id);
      },
      [this, id](absl::Status status) {
        if (!status.ok()) {
          spdlog::error("experiment e{}: its failure cannot be recorded: {}", id,
                        std::string(status.message()));
        }
        RemoveExperiment(id);
      });
}

void CoordinatorImpl::Cancel(int64_t id, const std::string& user,
                             absl::AnyInvocable<void(absl::Status)> done) {
  auto shared = std::make_shared<absl::AnyInvocable<void(absl::Status)>>(std::move(done));
  const bool posted = mailbox_->Post([this, id, user, shared] {
    WriteDurably(
        [id, user, now_us = WallNow()](store::Connection& db) -> absl::Status {
          ROPELAB_ASSIGN_OR_RETURN(const auto row, store::GetExperiment(db, id));
          if (row.state == "cancelled") {
            return absl::OkStatus();
          }
          if (IsFinalState(row.state)) {
            return absl::FailedPreconditionError(
                absl::StrCat("experiment e", id, " is ", row.state, " already and cannot be cancelled"));
          }
          ROPELAB_RETURN_IF_ERROR(
              store::SetExperimentState(db, id, "cancelled",
                                        user.empty() ? "cancelled" : absl::StrCat("cancelled by ", user),
                                        now_us)
                  .status());
          ROPELAB_RETURN_IF_ERROR(store::DetachExperiment(db, id));
          return store::RecordAudit(db, user, "cancel", absl::StrCat("e", id), now_us);
        },
        [this, id, shared](absl::Status status) {
          if (status.ok()) {
            spdlog::info("experiment e{} is cancelled", id);
            RemoveExperiment(id);
          }
          (*shared)(std::move(status));
        });
  });
  if (!posted) {
    (*shared)(absl::UnavailableError("the server is stopping; try again"));
  }
}

void CoordinatorImpl::RemoveExperiment(int64_t id) {
  if (experiments_.erase(id) == 0) {
    return;
  }
  const int64_t now = Now();
  for (const int64_t task : scheduler_.RemoveExperiment(id)) {
    const schedule::Lease* lease = scheduler_.leases().Find(task);
    if (lease == nullptr || lease->phase == schedule::LeasePhase::kOpening ||
        lease->phase == schedule::LeasePhase::kEnding) {
      continue;  // an opening one is undone when its row is committed
    }
    if (Link* link = LinkOfEpoch(lease->epoch); link != nullptr) {
      v1::ServerMessage message;
      v1::LeaseToken* token = message.mutable_cancel()->mutable_token();
      token->set_task(task);
      token->set_attempt(lease->attempt);
      token->set_session_epoch(lease->epoch);
      link->stream->Send(std::move(message));
      link->cancelled[task] = now;
    }
    store::AttemptEnd end;
    end.outcome = "cancelled";
    end.cause = "no unfinished experiment wants it";
    EndLease(task, std::move(end));
  }
  NotifyChanged(id);
  SourceEnded();
}

}  // namespace ropelab::api
