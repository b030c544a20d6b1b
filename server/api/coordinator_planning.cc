#include "server/api/coordinator_planning.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/service/canonical_hash.h"
#include "common/sha256.h"
#include "common/status_macros.h"
#include "server/api/catalogue.h"
#include "server/api/experiment_service_describe.h"
#include "server/api/head_score_sets.h"
#include "server/api/measurement_needs.h"
#include "server/api/stage_readings.h"
#include "server/experiments/head_set_imported.h"
#include "server/experiments/kinds.h"
#include "server/store/experiments.h"
#include "server/store/results.h"
#include "server/store/tasks.h"

namespace ropelab::api {
namespace {

constexpr int64_t kSlice = 500;
constexpr std::chrono::milliseconds kPause(500);

// Gives ABORTED when the experiment is final: whatever was under way for it is dropped.
absl::Status StillWanted(store::Connection& db, int64_t experiment) {
  ROPELAB_ASSIGN_OR_RETURN(const auto row, store::GetExperiment(db, experiment));
  return IsFinalState(row.state)
             ? absl::AbortedError(absl::StrCat("experiment e", experiment, " is ", row.state))
             : absl::OkStatus();
}

class Advance {
 public:
  Advance(store::Store* store, const Clock& clock, const AdvanceInput& input, const AdvanceHooks& hooks)
      : store_(store), clock_(clock), input_(input), hooks_(hooks), readings_(store, input.experiment) {
    context_.models = input.models;
    context_.numerics_class = input.numerics_class;
  }

  absl::StatusOr<Advanced> Run() {
    const experiments::Kind* kind = experiments::FindKind(input_.kind);
    if (kind == nullptr || kind->experiment == nullptr) {
      return absl::UnimplementedError(
          absl::StrCat("experiment kind '", input_.kind, "' is not run by this version of the server"));
    }
    experiment_ = kind->experiment;
    ROPELAB_ASSIGN_OR_RETURN(context_.corpora, ReadCorpora(*store_));
    if (const auto named = experiments::ImportedNames(*input_.spec); !named.empty()) {
      ROPELAB_ASSIGN_OR_RETURN(context_.scores, ReadHeadScores(*store_, named));
    }
    ROPELAB_ASSIGN_OR_RETURN(context_.earlier, ReadEarlier(*store_, input_.sources));
    std::vector<store::StageRow> stages;
    ROPELAB_RETURN_IF_ERROR(store_->Read([&](store::Connection& db) -> absl::Status {
      ROPELAB_ASSIGN_OR_RETURN(stages, store::StagesOf(db, input_.experiment));
      return absl::OkStatus();
    }));
    int64_t stage = 1;
    if (!stages.empty()) {
      const store::StageRow& last = stages.back();
      if (last.state == "running") {
        return Advanced{Advanced::Kind::kStageReady, last.stage, last.tasks, "", 0};
      }
      stage = last.state == "complete" ? last.stage + 1 : last.stage;
    }
    hooks_.entered("planning");
    for (;; ++stage) {
      ROPELAB_ASSIGN_OR_RETURN(auto plan, experiment_->Plan(*input_.spec, context_, stage, readings_));
      if (!plan.has_value()) {
        return Reduce();
      }
      ROPELAB_RETURN_IF_ERROR(Insert(stage, *plan));
      if (!plan->empty()) {
        return Advanced{Advanced::Kind::kStageReady, stage, static_cast<int64_t>(plan->size()), "", 0};
      }
      ROPELAB_RETURN_IF_ERROR(
          Write([&](store::Connection& db) { return store::CompleteStage(db, input_.experiment, stage); }));
    }
  }

 private:
  // Waits while the store is paused. `work` may run several times.
  absl::Status WhilePaused(const std::function<absl::Status()>& work) {
    while (true) {
      if (hooks_.stopping()) {
        return absl::AbortedError("the server stops");
      }
      const absl::Status status = work();
      if (!IsStorePaused(status)) {
        return status;
      }
      std::this_thread::sleep_for(kPause);
    }
  }

  absl::Status Write(const std::function<absl::Status(store::Connection&)>& write) {
    return WhilePaused([&] {
      return store_->WriteAndWait([&](store::Connection& db) -> absl::Status {
        ROPELAB_RETURN_IF_ERROR(StillWanted(db, input_.experiment));
        return write(db);
      });
    });
  }

  // What the stage was planned from: the spec, the models, and what every earlier task measured.
  absl::StatusOr<std::string> InputsDigest(int64_t stage) {
    Sha256 digest;
    digest.Update(absl::StrCat(input_.spec_hash, "\n", stage, "\n"));
    for (const auto& model : input_.models) {
      digest.Update(
          absl::StrCat(model.weights_hash, " ", model.config_hash, " ", model.tokenizer_hash, "\n"));
    }
    for (const experiments::EarlierExperiment& earlier : context_.earlier) {
      digest.Update(absl::StrCat(earlier.name, " ", earlier.result_digest, "\n"));
    }
    ROPELAB_RETURN_IF_ERROR(store_->Read([&](store::Connection& db) -> absl::Status {
      for (int64_t earlier = 1; earlier < stage; ++earlier) {
        ROPELAB_ASSIGN_OR_RETURN(const auto tasks, store::TasksOf(db, input_.experiment, earlier));
        for (const store::TaskRow& task : tasks) {
          digest.Update(absl::StrCat(task.key, " ", task.digest, "\n"));
        }
      }
      return absl::OkStatus();
    }));
    return digest.FinishHex();
  }

  absl::Status Insert(int64_t stage, const experiments::StagePlan& plan) {
    ROPELAB_ASSIGN_OR_RETURN(const std::string inputs, InputsDigest(stage));
    ROPELAB_RETURN_IF_ERROR(Write([&](store::Connection& db) -> absl::Status {
      if (!input_.numerics_class.empty()) {
        ROPELAB_RETURN_IF_ERROR(store::PinExperiment(db, input_.experiment, input_.numerics_class).status());
      }
      return store::BeginStage(db, input_.experiment, stage, inputs);
    }));
    Sha256 digest;
    const int64_t tasks = static_cast<int64_t>(plan.size());
    for (int64_t first = 0; first < tasks; first += kSlice) {
      std::vector<store::NewTask> slice;
      for (int64_t i = first; i < std::min(first + kSlice, tasks); ++i) {
        slice.push_back(NewTaskOf(plan[i]));
        digest.Update(absl::StrCat(slice.back().key, "\n"));
      }
      ROPELAB_RETURN_IF_ERROR(Write([&](store::Connection& db) {
        return store::InsertStageTasks(db, store_->artifacts(), input_.experiment, stage, first, slice,
                                       input_.numerics_class, /*bypass_reuse=*/false);
      }));
    }
    const std::string plan_digest = digest.FinishHex();
    return Write([&](store::Connection& db) {
      return store::FinishPlanning(db, input_.experiment, stage, plan_digest, tasks);
    });
  }

  static store::NewTask NewTaskOf(const experiments::PlannedTask& planned) {
    store::NewTask task;
    task.key = CanonicalHash(planned.measurement);
    task.kind = KindOf(planned.measurement);
    task.measurement = planned.measurement.SerializeAsString();
    task.model = planned.model;
    const schedule::ModelNeeds needs = NeedsOf(planned.measurement);
    task.weights_hash = needs.weights_hash;
    task.config_hash = needs.config_hash;
    task.tokenizer_hash = needs.tokenizer_hash;
    return task;
  }

  absl::StatusOr<Advanced> Reduce() {
    hooks_.entered("reducing");
    ROPELAB_RETURN_IF_ERROR(Write([&](store::Connection& db) {
      return store::SetExperimentState(db, input_.experiment, "reducing", "", clock_.WallMicroseconds())
          .status();
    }));
    const auto began = clock_.Monotonic();
    ROPELAB_ASSIGN_OR_RETURN(experiments::Results results,
                             experiment_->Reduce(*input_.spec, context_, readings_));
    std::vector<store::ResultTable> tables;
    for (experiments::Table& table : results.tables) {
      tables.push_back({std::move(table.slice), std::move(table.sql_rows), table.whole_in_sql});
    }
    std::vector<store::ResultArtifact> artifacts;
    for (const v1::ArtifactInfo& artifact : results.artifacts) {
      artifacts.push_back({artifact.name(), artifact.sha256(), artifact.bytes()});
    }
    for (const experiments::MadeArtifact& made : results.made) {
      std::string sha256;
      ROPELAB_RETURN_IF_ERROR(WhilePaused([&]() -> absl::Status {
        ROPELAB_ASSIGN_OR_RETURN(sha256, store_->artifacts().Put(made.bytes));
        return absl::OkStatus();
      }));
      artifacts.push_back({made.name, sha256, static_cast<int64_t>(made.bytes.size())});
    }
    Advanced done;
    done.kind = Advanced::Kind::kDone;
    ROPELAB_RETURN_IF_ERROR(Write([&](store::Connection& db) -> absl::Status {
      ROPELAB_ASSIGN_OR_RETURN(done.result_digest,
                               store::InsertResults(db, store_->artifacts(), input_.experiment, tables,
                                                    artifacts, /*partial=*/false));
      return store::SetExperimentState(db, input_.experiment, "done", "", clock_.WallMicroseconds()).status();
    }));
    done.reduce_seconds = std::chrono::duration<double>(clock_.Monotonic() - began).count();
    return done;
  }

  store::Store* store_;
  const Clock& clock_;
  const AdvanceInput& input_;
  const AdvanceHooks& hooks_;
  StoredStageReadings readings_;
  experiments::Context context_;
  const experiments::Experiment* experiment_ = nullptr;
};

}  // namespace

std::string KindOf(const v1::Measurement& measurement) {
  const auto* oneof = v1::Measurement::descriptor()->FindOneofByName("kind");
  const auto* field = measurement.GetReflection()->GetOneofFieldDescriptor(measurement, oneof);
  return field == nullptr ? "" : std::string(field->name());
}

bool IsStorePaused(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsUnavailable(status);
}

absl::StatusOr<Advanced> AdvanceExperiment(store::Store* store, const Clock& clock, const AdvanceInput& input,
                                           const AdvanceHooks& hooks) {
  absl::StatusOr<Advanced> advanced;
  try {
    advanced = Advance(store, clock, input, hooks).Run();
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("experiment kind '", input.kind, "' threw: ", error.what()));
  }
  if (absl::IsAborted(advanced.status())) {
    return Advanced{};
  }
  return advanced;
}

}  // namespace ropelab::api
