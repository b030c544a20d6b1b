// Rows of registered corpora. Their content is in corpus_files.h's care.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/connection.h"

namespace ropelab::store {

inline constexpr char kInDataDir[] = "data-dir";
inline constexpr char kInCorporaDir[] = "corpora-dir";

struct CorpusRow {
  std::string name, sha256, kind;
  int64_t documents = 0, bytes = 0, registered_us = 0;
  std::string place;        // kInDataDir: the content is ours; kInCorporaDir: it is read where it lies
  std::string path, stamp;  // of the file or folder under --corpora; empty if it never was one
  std::string user;         // who added it; empty: the server at its start
  std::vector<std::string> text_fields;
};

// Makes (name, sha256) the corpus that the name means, whatever it meant before; registered_us is moved on
// where it would not come last. True if the name meant it already: then nothing but place, path and stamp
// changes, and a corpus in the data directory stays there. ALREADY_EXISTS: the name has this content as
// another kind.
absl::StatusOr<bool> RegisterCorpus(Connection& db, const CorpusRow& row);
// By name; of one name the last registered first.
absl::StatusOr<std::vector<CorpusRow>> ListCorpora(Connection& db);
// Those with this content, whatever their names; what lies in the data directory first.
absl::StatusOr<std::vector<CorpusRow>> CorporaOfContent(Connection& db, const std::string& sha256);

}  // namespace ropelab::store
