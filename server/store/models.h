// Every model and worker ever announced.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ropelab/v1/model.pb.h"
#include "ropelab/v1/worker_service.pb.h"
#include "server/store/connection.h"

namespace ropelab::store {

struct ModelRow {
  v1::ModelAnnouncement announcement;  // weights_hash filled once known
  int64_t last_seen_us = 0;
  std::string last_worker;
};
// One row per (name, config_hash, weights_hash, tokenizer_hash); a weights hash that becomes known fills the
// row that lacks it. What was verified of these weights stays known when an announcement says nothing of it.
absl::Status RecordModel(Connection& db, const v1::ModelAnnouncement& announcement, const std::string& worker,
                         int64_t now_us);
absl::StatusOr<std::vector<ModelRow>> KnownModels(Connection& db);
// Less the rows that a worker has since replaced: it was the last to announce one, and later announced the
// same name and weights beside another tokenizer.json. (Where others still hold the old file, their next
// greeting brings the row back.) What an experiment was planned with is found among all rows; what a new spec
// may name, among these.
std::vector<ModelRow> WithoutReplaced(std::vector<ModelRow> models);
absl::Status RecordWorker(Connection& db, const v1::Hello& hello, int64_t session_epoch, int64_t now_us);
// "Who did what": submit, cancel, drain, ... One line each.
absl::Status RecordAudit(Connection& db, const std::string& user, const std::string& action,
                         const std::string& subject, int64_t now_us);
// Every class ever announced, with what it is made of.
absl::StatusOr<v1::NumericsClass> GetNumericsClass(Connection& db, const std::string& hash);

}  // namespace ropelab::store
