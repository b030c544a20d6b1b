#include "server/store/corpus_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/sha256.h"
#include "common/status_macros.h"
#include "server/store/errors.h"

namespace ropelab::store {
namespace {

namespace fs = std::filesystem;

bool IsInDataDir(const CorpusRow& row) {
  return row.place == kInDataDir;
}

absl::Status Lost(const CorpusRow& row, const std::string& path, const std::string& why) {
  return absl::DataLossError(
      IsInDataDir(row)
          ? absl::StrCat("corpus ", row.name, ": the stored file ", path, " ", why,
                         "; register it again: ropelab corpora add ", row.name, " PATH")
          : absl::StrCat("corpus ", row.name, ": ", path, " ", why,
                         "; restart the server, which registers what is there now, and submit again"));
}

// What went wrong with a corpus's file, as a reader sees it: a full descriptor table is not the file's fault.
absl::Status AsLoss(const CorpusRow& row, const std::string& path, const absl::Status& status) {
  if (absl::IsNotFound(status)) {
    return Lost(row, path, "is gone");
  }
  return absl::IsDataLoss(status) ? Lost(row, path, std::string(status.message())) : status;
}

absl::Status WriteSynced(const std::string& path, std::string_view bytes) {
  ROPELAB_ASSIGN_OR_RETURN(File file, File::Open(path, O_RDWR | O_CREAT | O_TRUNC));
  ROPELAB_RETURN_IF_ERROR(file.WriteAt(0, bytes));
  return file.Sync();
}

}  // namespace

absl::StatusOr<std::string> CorpusReader::ForEachPiece(
    absl::FunctionRef<absl::Status(std::string)> visit) const {
  Sha256 hash;
  for (int64_t at = 0; at < entry_.bytes; at += kCorpusPieceBytes) {
    const int64_t wanted = std::min(kCorpusPieceBytes, entry_.bytes - at);
    ROPELAB_ASSIGN_OR_RETURN(std::string piece, file_.ReadAt(entry_.offset + at, wanted));
    if (static_cast<int64_t>(piece.size()) != wanted) {
      return Lost(row_, path_, "became shorter");
    }
    hash.Update(piece);
    ROPELAB_RETURN_IF_ERROR(visit(std::move(piece)));
  }
  if (hash.FinishHex() != entry_.sha256) {
    return Lost(row_, path_, "changed: it no longer has the SHA-256 with which it was registered");
  }
  return entry_.sha256;
}

CorpusFiles::CorpusFiles(std::string folder) : folder_(std::move(folder)) {}

std::string CorpusFiles::ContentPath(const std::string& sha256) const {
  return absl::StrCat(folder_, "/", sha256, "/content");
}

std::string CorpusFiles::IndexPath(const CorpusRow& row) const {
  const std::string suffix = IsInDataDir(row) ? "" : absl::StrCat("-", Sha256Hex(row.path).substr(0, 16));
  return absl::StrCat(folder_, "/", row.sha256, "/index", suffix);
}

absl::Status CorpusFiles::Sweep(const std::vector<CorpusRow>& rows) {
  std::set<std::string> named;
  for (const CorpusRow& row : rows) {
    named.insert(row.sha256);
  }
  std::error_code error;
  fs::create_directories(folder_, error);
  std::vector<fs::path> leftovers;
  for (fs::directory_iterator entry(folder_, error), end; !error && entry != end; entry.increment(error)) {
    if (!named.contains(entry->path().filename().string())) {
      leftovers.push_back(entry->path());
    }
  }
  for (const fs::path& leftover : leftovers) {
    fs::remove_all(leftover, error);
  }
  if (!error) fs::create_directories(folder_ + "/unfinished", error);
  if (error) return FileError("emptying", folder_, error.value());
  return SyncFolder(folder_ + "/..");
}

std::string CorpusFiles::NewUnfinished() {
  MutexLock lock(&publish_mutex_);
  return absl::StrCat(folder_, "/unfinished/", ++unfinished_);
}

absl::Status CorpusFiles::Publish(const std::string& sha256, const std::vector<Move>& moves) {
  const std::string home = absl::StrCat(folder_, "/", sha256);
  MutexLock lock(&publish_mutex_);
  if (mkdir(home.c_str(), 0755) != 0 && errno != EEXIST) return FileError("making", home, errno);
  for (const Move& move : moves) {
    if (rename(move.from.c_str(), move.to.c_str()) != 0) return FileError("naming", move.to, errno);
  }
  ROPELAB_RETURN_IF_ERROR(SyncFolder(home));
  return SyncFolder(folder_);
}

absl::StatusOr<CorpusReader> CorpusFiles::Open(const CorpusRow& row, int64_t document) const {
  const std::string index_path = IndexPath(row);
  const absl::StatusOr<File> index = File::Open(index_path, O_RDONLY);
  if (!index.ok()) return AsLoss(row, index_path, index.status());
  absl::StatusOr<CorpusEntry> entry = ReadCorpusEntry(*index, document);
  if (absl::IsOutOfRange(entry.status())) {
    return absl::NotFoundError(absl::StrCat("corpus ", row.name, " has no document ", document, ": ",
                                            std::string(entry.status().message())));
  }
  if (!entry.ok()) return AsLoss(row, index_path, entry.status());
  std::string path = IsInDataDir(row)      ? ContentPath(row.sha256)
                     : entry->file.empty() ? row.path
                                           : absl::StrCat(row.path, "/", entry->file);
  absl::StatusOr<File> file = File::Open(path, O_RDONLY);
  if (!file.ok()) return AsLoss(row, path, file.status());
  ROPELAB_ASSIGN_OR_RETURN(const int64_t size, file->Size());
  const int64_t expected = entry->source_bytes < 0 ? entry->bytes : entry->source_bytes;
  if (size != expected) {
    return Lost(row, path, absl::StrCat("changed: it has ", size, " bytes and had ", expected));
  }
  return CorpusReader(*std::move(file), *std::move(entry), row, std::move(path));
}

std::string CorpusFiles::Problem(const CorpusRow& row) const {
  if (row.documents == 0) {
    return absl::StrCat("an earlier version registered corpus ", row.name,
                        " without an index: register it again: ropelab corpora add ", row.name, " PATH");
  }
  if (!IsInDataDir(row)) {
    const absl::StatusOr<std::string> stamp = Stamp(row.path);
    if (!stamp.ok()) return std::string(AsLoss(row, row.path, stamp.status()).message());
    if (*stamp != row.stamp) {
      return std::string(Lost(row, row.path, "changed after it was registered").message());
    }
  }
  const absl::Status opened = Open(row, 0).status();
  return std::string(opened.message());
}

absl::StatusOr<std::unique_ptr<CorpusUpload>> CorpusFiles::Begin(const std::string& name,
                                                                 const std::string& kind) {
  ROPELAB_RETURN_IF_ERROR(CheckCorpusName(name));
  ROPELAB_RETURN_IF_ERROR(CheckCorpusKind(kind));
  const std::string path = NewUnfinished();
  ROPELAB_ASSIGN_OR_RETURN(File content, File::Open(path, O_RDWR | O_CREAT | O_TRUNC));
  return std::unique_ptr<CorpusUpload>(new CorpusUpload(this, name, kind, path, std::move(content)));
}

CorpusUpload::CorpusUpload(CorpusFiles* files, std::string name, std::string kind, std::string path,
                           File content)
    : files_(files), path_(std::move(path)), content_(std::move(content)), splitter_(kind == "jsonl") {
  row_.name = std::move(name);
  row_.kind = std::move(kind);
  row_.place = kInDataDir;
}

CorpusUpload::~CorpusUpload() {
  unlink(path_.c_str());
  unlink((path_ + ".index").c_str());
}

absl::Status CorpusUpload::Flush() {
  ROPELAB_RETURN_IF_ERROR(content_.WriteAt(written_, held_));
  written_ += static_cast<int64_t>(held_.size());
  held_.clear();
  return absl::OkStatus();
}

absl::Status CorpusUpload::Keep(std::string_view bytes) {
  held_.append(bytes);
  return static_cast<int64_t>(held_.size()) >= kCorpusPieceBytes ? Flush() : absl::OkStatus();
}

absl::Status CorpusUpload::Append(std::string_view piece, bool ends) {
  const bool jsonl = row_.kind == "jsonl";
  if (!std::exchange(inside_, true)) {
    splitter_.Begin(jsonl ? row_.name : absl::StrCat("document ", row_.documents, " of ", row_.name));
  }
  const auto keep = [&](const CorpusDocument& document) -> absl::Status {
    hash_.Add(document.bytes);
    index_.Add(document.bytes, written_ + static_cast<int64_t>(held_.size()), "");
    ++row_.documents;
    row_.bytes += static_cast<int64_t>(document.bytes.size());
    ROPELAB_RETURN_IF_ERROR(Keep(document.bytes));
    return jsonl ? Keep("\n") : absl::OkStatus();
  };
  ROPELAB_RETURN_IF_ERROR(splitter_.Append(piece, keep));
  if (ends) {
    inside_ = false;
    return splitter_.End(keep);
  }
  return absl::OkStatus();
}

absl::StatusOr<CorpusRow> CorpusUpload::Finish(absl::FunctionRef<absl::Status()> still_wanted) {
  if (inside_) {
    return absl::InvalidArgumentError(absl::StrCat("corpus ", row_.name, " ends within ",
                                                   row_.kind == "jsonl" ? "its file" : "a document",
                                                   ": the last piece was not marked as the last"));
  }
  if (row_.bytes == 0) {
    return absl::InvalidArgumentError(absl::StrCat("corpus ", row_.name, " holds no text: give it one"));
  }
  ROPELAB_RETURN_IF_ERROR(Flush());
  ROPELAB_RETURN_IF_ERROR(content_.Sync());
  ROPELAB_RETURN_IF_ERROR(WriteSynced(path_ + ".index", index_.Finish(written_)));
  ROPELAB_RETURN_IF_ERROR(still_wanted());
  row_.sha256 = hash_.FinishHex();
  row_.text_fields = splitter_.text_fields();
  ROPELAB_RETURN_IF_ERROR(files_->Publish(
      row_.sha256, {{path_ + ".index", files_->IndexPath(row_)}, {path_, files_->ContentPath(row_.sha256)}}));
  return row_;
}

}  // namespace ropelab::store
