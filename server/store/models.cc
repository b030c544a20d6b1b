#include "server/store/models.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"

namespace ropelab::store {
namespace {

// Weights hashes under which (name, config, tokenizer) is known, last seen first; "" among them: a row that
// lacks it.
absl::StatusOr<std::vector<std::string>> KnownHashes(Connection& db,
                                                     const v1::ModelAnnouncement& announcement) {
  std::vector<std::string> hashes;
  ROPELAB_RETURN_IF_ERROR(db.Query(
      "SELECT weights_hash FROM models WHERE name = ? AND config_hash = ? AND tokenizer_hash = ? "
      "ORDER BY last_seen_us DESC",
      {announcement.name(), announcement.config_hash(), announcement.tokenizer_hash()}, [&](const Row& row) {
        hashes.push_back(row.Text(0));
        return absl::OkStatus();
      }));
  return hashes;
}

}  // namespace

absl::Status RecordModel(Connection& db, const v1::ModelAnnouncement& announcement, const std::string& worker,
                         int64_t now_us) {
  v1::ModelAnnouncement filled = announcement;
  ROPELAB_ASSIGN_OR_RETURN(const std::vector<std::string> known, KnownHashes(db, announcement));
  if (announcement.weights_hash().empty()) {
    // Not hashed on this worker yet: taken for the one that was seen last, so that no name seems to have two
    // models.
    if (!known.empty()) filled.set_weights_hash(known.front());
  } else {
    ROPELAB_RETURN_IF_ERROR(
        db.Execute("DELETE FROM models WHERE name = ? AND config_hash = ? AND tokenizer_hash = ? AND "
                   "weights_hash = ''",
                   {announcement.name(), announcement.config_hash(), announcement.tokenizer_hash()})
            .status());
  }
  if (!filled.has_verification()) {
    // A verification is of weights and config, whatever tokenizer lies beside them.
    ROPELAB_RETURN_IF_ERROR(
        db.Query("SELECT announcement FROM models WHERE name = ? AND config_hash = ? AND weights_hash = ? "
                 "ORDER BY last_seen_us",
                 {filled.name(), filled.config_hash(), filled.weights_hash()}, [&](const Row& row) {
                   v1::ModelAnnouncement earlier;
                   if (earlier.ParseFromString(row.Bytes(0)) && earlier.has_verification()) {
                     *filled.mutable_verification() = earlier.verification();
                   }
                   return absl::OkStatus();
                 }));
  }
  const std::string bytes = filled.SerializeAsString();
  return db
      .Execute(
          "INSERT INTO models(name, config_hash, weights_hash, tokenizer_hash, bytes, last_seen_us, "
          "last_worker, announcement) "
          "VALUES(?, ?, ?, ?, ?, ?, ?, ?) "
          "ON CONFLICT(name, config_hash, weights_hash, tokenizer_hash) DO UPDATE SET "
          "bytes = excluded.bytes, last_seen_us = excluded.last_seen_us, last_worker = excluded.last_worker, "
          "announcement = excluded.announcement",
          {filled.name(), filled.config_hash(), filled.weights_hash(), filled.tokenizer_hash(),
           filled.bytes(), now_us, worker, Blob{bytes}})
      .status();
}

absl::StatusOr<std::vector<ModelRow>> KnownModels(Connection& db) {
  std::vector<ModelRow> models;
  ROPELAB_RETURN_IF_ERROR(
      db.Query("SELECT announcement, last_seen_us, last_worker, name FROM models ORDER BY name, config_hash, "
               "weights_hash, tokenizer_hash",
               {}, [&](const Row& row) -> absl::Status {
                 ModelRow& model = models.emplace_back();
                 model.last_seen_us = row.Integer(1);
                 model.last_worker = row.Text(2);
                 if (model.announcement.ParseFromString(row.Bytes(0))) return absl::OkStatus();
                 return absl::DataLossError(absl::StrCat("what is stored of model ", row.Text(3),
                                                         " cannot be read: restore a backup"));
               }));
  return models;
}

std::vector<ModelRow> WithoutReplaced(std::vector<ModelRow> models) {
  const auto replaced = [&](const ModelRow& old) {
    return std::any_of(models.begin(), models.end(), [&](const ModelRow& by) {
      const v1::ModelAnnouncement& was = old.announcement;
      const v1::ModelAnnouncement& is = by.announcement;
      return by.last_worker == old.last_worker && by.last_seen_us > old.last_seen_us &&
             is.name() == was.name() && is.config_hash() == was.config_hash() &&
             is.tokenizer_hash() != was.tokenizer_hash() &&
             (is.weights_hash().empty() || is.weights_hash() == was.weights_hash());
    });
  };
  std::vector<ModelRow> standing;
  std::copy_if(models.begin(), models.end(), std::back_inserter(standing), std::not_fn(replaced));
  return standing;
}

absl::Status RecordWorker(Connection& db, const v1::Hello& hello, int64_t session_epoch, int64_t now_us) {
  const v1::NumericsClass& numerics = hello.numerics();
  const std::string ingredients = absl::StrJoin(numerics.ingredients(), "\n");
  if (!numerics.hash().empty()) {
    ROPELAB_RETURN_IF_ERROR(
        db.Execute("INSERT INTO numerics_classes(hash, ingredients, first_seen_us) VALUES(?, ?, ?) "
                   "ON CONFLICT(hash) DO NOTHING",
                   {numerics.hash(), ingredients, now_us})
            .status());
  }
  const std::string labels = absl::StrJoin(hello.labels(), "\n");
  return db
      .Execute(
          "INSERT INTO workers(id, incarnation, build, engine_version, device_kind, device_name, "
          "device_memory_bytes, "
          "numerics_class, labels, session_epoch, first_seen_us, last_seen_us) "
          "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?11) ON CONFLICT(id) DO UPDATE SET "
          "incarnation = ?2, build = ?3, engine_version = ?4, device_kind = ?5, device_name = ?6, "
          "device_memory_bytes = ?7, numerics_class = ?8, labels = ?9, session_epoch = ?10, last_seen_us = "
          "?11",
          {hello.worker_id(), hello.incarnation(), hello.build(), hello.engine_version(),
           hello.device().kind(), hello.device().name(), hello.device().memory_bytes(), numerics.hash(),
           labels, session_epoch, now_us})
      .status();
}

absl::Status RecordAudit(Connection& db, const std::string& user, const std::string& action,
                         const std::string& subject, int64_t now_us) {
  return db
      .Execute("INSERT INTO audit(at_us, user, action, subject) VALUES(?, ?, ?, ?)",
               {now_us, user, action, subject})
      .status();
}

absl::StatusOr<v1::NumericsClass> GetNumericsClass(Connection& db, const std::string& hash) {
  std::optional<v1::NumericsClass> found;
  ROPELAB_RETURN_IF_ERROR(
      db.Query("SELECT ingredients FROM numerics_classes WHERE hash = ?", {hash}, [&](const Row& row) {
        found.emplace();
        found->set_hash(hash);
        for (const absl::string_view line : absl::StrSplit(row.Text(0), '\n', absl::SkipEmpty())) {
          found->add_ingredients(std::string(line));
        }
        return absl::OkStatus();
      }));
  if (!found)
    return absl::NotFoundError(absl::StrCat("no worker of numerics class ", hash, " was ever seen"));
  return *found;
}

}  // namespace ropelab::store
