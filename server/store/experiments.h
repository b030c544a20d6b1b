// Rows of experiments, studies, stages and their links to tasks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/artifact_files.h"
#include "server/store/connection.h"

namespace ropelab::store {

// Names of states as they are stored; schedule/ owns which move is legal.
struct ExperimentRow {
  int64_t id = 0;        // shown to people as "e<id>"
  int64_t study_id = 0;  // 0: none; shown as "s<id>"
  std::string name, kind, owner;
  bool owner_verified = false;
  std::string spec;        // the resolved ExperimentSpec, serialized
  std::string typed_spec;  // as submitted, serialized
  std::string spec_hash;   // canonical hash of the resolved spec
  std::string state;       // waiting, queued, running, reducing, done, failed, cancelled
  std::string reason;
  std::string priority;        // interactive, normal, batch
  std::string numerics_class;  // empty until pinned
  std::string warnings;        // a line each
  std::string tags;            // a line each
  std::string models;          // a line each: name@weights_hash (hash empty until known), in the spec's order
  std::string result_digest;
  int64_t submitted_us = 0, started_us = 0, finished_us = 0;
};

struct SubmittedIds {
  int64_t study_id = 0;
  std::vector<int64_t> experiment_ids;
  bool already_submitted = false;
};

// Inserts a study (its name may be empty: then none) and its experiments under the client's request id. The
// same (owner, request_id) again inserts nothing and returns the first answer; with another submission_hash
// it is ALREADY_EXISTS. An empty request id is INVALID_ARGUMENT. Of the rows, ids, study_id and owner are
// ignored.
absl::StatusOr<SubmittedIds> InsertSubmission(Connection& db, const std::string& owner,
                                              const std::string& request_id,
                                              const std::string& submission_hash, bool is_study,
                                              const std::string& study_name,
                                              const std::vector<ExperimentRow>& experiments);
absl::StatusOr<ExperimentRow> GetExperiment(Connection& db, int64_t id);  // NOT_FOUND names the id
absl::StatusOr<std::vector<int64_t>> ExperimentsOfStudy(Connection& db, int64_t study_id);
struct ExperimentFilter {
  std::string owner = "", state = "", kind = "", model = "", tag = "";
  int64_t limit = 1000;
};
// Newest first. `spec` and `typed_spec` are left empty: a thousand of them could be gigabytes. `model` is a
// name or name@hash.
absl::StatusOr<std::vector<ExperimentRow>> ListExperiments(Connection& db, const ExperimentFilter& filter);
// Those in no final state, oldest first: what a server that starts must take up again.
absl::StatusOr<std::vector<ExperimentRow>> UnfinishedExperiments(Connection& db);
// Changes the state; does nothing and returns false if the present state is final (done, failed, cancelled).
// The first "running" stamps started_us, or "reducing" where every task was measured before; a final state
// stamps finished_us.
absl::StatusOr<bool> SetExperimentState(Connection& db, int64_t id, const std::string& state,
                                        const std::string& reason, int64_t now_us);
// The resolved spec again (weights hashes became known).
absl::Status SetExperimentModels(Connection& db, int64_t id, const std::string& models);

struct NewTask {
  std::string key;  // canonical hash of the measurement, without the numerics class
  std::string kind;
  std::string measurement;  // serialized; over 64 KiB it goes to a content-named file
  std::string model;        // the announced name; empty without a model
  // What a worker's model must have; empty: any. The tokenizer's only where text is turned into token ids.
  std::string weights_hash = "", tokenizer_hash = "", config_hash = "";
};
// Inserts one slice of a stage's tasks [first_index, ...) and links them. `numerics_class` empty: tasks not
// pinned yet, each new; else an existing task of (key, class) is linked instead (one that failed or was
// unwanted gets a fresh start). Inserting the same indices again does nothing (planning is idempotent).
// `bypass_reuse`: tasks are shared within this experiment only.
absl::Status InsertStageTasks(Connection& db, ArtifactFiles& files, int64_t experiment, int64_t stage,
                              int64_t first_index, const std::vector<NewTask>& tasks,
                              const std::string& numerics_class, bool bypass_reuse);
struct StageRow {
  int64_t stage = 0;  // from 1
  std::string state;  // planning, running, complete
  std::string inputs_digest, plan_digest;
  int64_t tasks = 0, finished = 0;
};
absl::Status BeginStage(Connection& db, int64_t experiment, int64_t stage,
                        const std::string& inputs_digest);  // idempotent
absl::Status FinishPlanning(Connection& db, int64_t experiment, int64_t stage, const std::string& plan_digest,
                            int64_t tasks);
absl::Status CompleteStage(Connection& db, int64_t experiment, int64_t stage);
absl::StatusOr<std::vector<StageRow>> StagesOf(Connection& db, int64_t experiment);

// Pins the experiment to a class and gives the class to its unpinned tasks; where (key, class) exists
// already, the link moves to that task (a failed or unwanted one gets a fresh start) and the unpinned one
// goes: task ids read before are stale. Returns how many were merged. FAILED_PRECONDITION if pinned to
// another.
absl::StatusOr<int64_t> PinExperiment(Connection& db, int64_t experiment, const std::string& numerics_class);
// Cancel and failure detach: pending tasks that no other unfinished experiment wants become unwanted, so that
// they are not granted.
absl::Status DetachExperiment(Connection& db, int64_t experiment);

}  // namespace ropelab::store
