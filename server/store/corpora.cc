#include "server/store/corpora.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"

namespace ropelab::store {
namespace {

#define ROPELAB_CORPUS_COLUMNS \
  "name, sha256, kind, documents, bytes, registered_us, place, path, stamp, user, text_fields"
constexpr char kList[] =
    "SELECT " ROPELAB_CORPUS_COLUMNS " FROM corpora ORDER BY name, registered_us DESC, sha256";
constexpr char kOfName[] =
    "SELECT " ROPELAB_CORPUS_COLUMNS " FROM corpora WHERE name = ? ORDER BY registered_us DESC, sha256";
constexpr char kOfContent[] =
    "SELECT " ROPELAB_CORPUS_COLUMNS " FROM corpora WHERE sha256 = ? ORDER BY place = 'data-dir' DESC, name";
constexpr char kInsert[] =
    "INSERT INTO corpora(" ROPELAB_CORPUS_COLUMNS ") VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
#undef ROPELAB_CORPUS_COLUMNS

CorpusRow CorpusFrom(const Row& row) {
  CorpusRow corpus;
  corpus.name = row.Text(0);
  corpus.sha256 = row.Text(1);
  corpus.kind = row.Text(2);
  corpus.documents = row.Integer(3);
  corpus.bytes = row.Integer(4);
  corpus.registered_us = row.Integer(5);
  corpus.place = row.Text(6);
  corpus.path = row.Text(7);
  corpus.stamp = row.Text(8);
  corpus.user = row.Text(9);
  corpus.text_fields = absl::StrSplit(row.Text(10), '\n', absl::SkipEmpty());
  return corpus;
}

absl::StatusOr<std::vector<CorpusRow>> Rows(Connection& db, std::string_view sql,
                                            std::initializer_list<Value> values) {
  std::vector<CorpusRow> rows;
  ROPELAB_RETURN_IF_ERROR(db.Query(sql, values, [&](const Row& row) {
    rows.push_back(CorpusFrom(row));
    return absl::OkStatus();
  }));
  return rows;
}

}  // namespace

absl::StatusOr<bool> RegisterCorpus(Connection& db, const CorpusRow& row) {
  ROPELAB_ASSIGN_OR_RETURN(const std::vector<CorpusRow> known, Rows(db, kOfName, {row.name}));
  const int64_t registered_us =
      known.empty() ? row.registered_us : std::max(row.registered_us, known.front().registered_us + 1);
  const auto same = std::find_if(known.begin(), known.end(),
                                 [&](const CorpusRow& other) { return other.sha256 == row.sha256; });
  if (same == known.end()) {
    const std::string fields = absl::StrJoin(row.text_fields, "\n");
    ROPELAB_RETURN_IF_ERROR(
        db.Execute(kInsert, {row.name, row.sha256, row.kind, row.documents, row.bytes, registered_us,
                             row.place, row.path, row.stamp, row.user, fields})
            .status());
    return false;
  }
  // A row of schema version 1 knows neither kind nor documents.
  if (same->kind != row.kind && same->documents > 0) {
    return absl::AlreadyExistsError(absl::StrCat("corpus ", row.name, " has this very content as kind ",
                                                 same->kind, ": give it another name to have it as kind ",
                                                 row.kind));
  }
  const bool meant = same == known.begin();
  const bool in_place = row.place == kInCorporaDir;
  const std::string& place = same->place == kInDataDir ? same->place : row.place;
  const std::string fields = absl::StrJoin(row.text_fields, "\n");
  ROPELAB_RETURN_IF_ERROR(
      db.Execute("UPDATE corpora SET kind = ?, documents = ?, bytes = ?, registered_us = ?, place = ?, "
                 "path = ?, stamp = ?, text_fields = ? WHERE name = ? AND sha256 = ?",
                 {row.kind, row.documents, row.bytes, meant ? same->registered_us : registered_us, place,
                  in_place ? row.path : same->path, in_place ? row.stamp : same->stamp, fields, row.name,
                  row.sha256})
          .status());
  return meant;
}

absl::StatusOr<std::vector<CorpusRow>> ListCorpora(Connection& db) {
  return Rows(db, kList, {});
}

absl::StatusOr<std::vector<CorpusRow>> CorporaOfContent(Connection& db, const std::string& sha256) {
  return Rows(db, kOfContent, {sha256});
}

}  // namespace ropelab::store
