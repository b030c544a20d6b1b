#include "server/store/errors.h"

#include <cerrno>
#include <cstring>

#include <sqlite3.h>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace ropelab::store {
namespace {

constexpr char kDiskFullMark[] = "ropelab/disk-full";
constexpr char kTroubleMark[] = "ropelab/store-trouble";

absl::Status DiskFull(const std::string& message) {
  absl::Status status = absl::ResourceExhaustedError(absl::StrCat(
      "no space left for the data directory: free some, nothing needs a restart (", message, ")"));
  status.SetPayload(kDiskFullMark, absl::Cord("1"));
  return status;
}

absl::Status Trouble(const std::string& message) {
  absl::Status status = absl::UnavailableError(message);
  status.SetPayload(kTroubleMark, absl::Cord("1"));
  return status;
}

}  // namespace

absl::Status FileError(const std::string& doing, const std::string& path, int error_number) {
  const std::string message = absl::StrCat(doing, " ", path, ": ", std::strerror(error_number));
  if (error_number == ENOSPC || error_number == EDQUOT) return DiskFull(message);
  if (error_number == ENOENT) return absl::NotFoundError(message);
  return Trouble(message);
}

absl::Status SqliteError(int code, const std::string& message) {
  switch (code & 0xff) {
    case SQLITE_FULL:
      return DiskFull(message);
    case SQLITE_IOERR:
    case SQLITE_BUSY:
    case SQLITE_CANTOPEN:
      return Trouble(message);
    case SQLITE_CONSTRAINT:
      return absl::AlreadyExistsError(message);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::DataLossError(message);
    case SQLITE_NOMEM:
      return absl::ResourceExhaustedError(message);
    default:
      return absl::InternalError(message);
  }
}

bool IsStoreTrouble(const absl::Status& status) {
  return status.GetPayload(kTroubleMark).has_value();
}

bool IsDiskFull(const absl::Status& status) {
  return status.GetPayload(kDiskFullMark).has_value();
}

}  // namespace ropelab::store
