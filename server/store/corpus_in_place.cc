// Corpora under --corpora: read where they lie (corpus_files.h).
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/sha256.h"
#include "common/status_macros.h"
#include "server/store/corpus_files.h"
#include "server/store/errors.h"

namespace ropelab::store {
namespace {

namespace fs = std::filesystem;

// The *.txt files of a folder, by name.
absl::StatusOr<std::vector<std::string>> TextFiles(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;
    if (absl::EndsWith(name, ".txt") && entry->is_regular_file(ignored)) names.push_back(name);
  }
  if (error) return FileError("reading the folder", folder, error.value());
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<std::string> StampOfFile(const std::string& path) {
  struct stat facts;
  if (stat(path.c_str(), &facts) != 0) return FileError("examining", path, errno);
  return absl::StrCat(facts.st_size, " ", facts.st_mtim.tv_sec, ".", facts.st_mtim.tv_nsec, " ", facts.st_ino,
                      " ", facts.st_ctim.tv_sec, ".", facts.st_ctim.tv_nsec);
}

// Reads files one after the other into a hash and an index.
class Indexer {
 public:
  Indexer(CorpusRow* row, const std::function<bool()>& stopping)
      : row_(row), stopping_(stopping), splitter_(row->kind == "jsonl") {}

  // `name`: of the document's own file within row.path, or empty.
  absl::Status Read(const std::string& path, const std::string& name) {
    ROPELAB_ASSIGN_OR_RETURN(const File file, File::Open(path, O_RDONLY));
    const auto visit = [&](const CorpusDocument& document) {
      hash_.Add(document.bytes);
      index_.Add(document.bytes, document.offset, name);
      ++row_->documents;
      row_->bytes += static_cast<int64_t>(document.bytes.size());
      return absl::OkStatus();
    };
    splitter_.Begin(path);
    for (source_bytes_ = 0;;) {
      if (stopping_()) return absl::CancelledError("the server stops");
      ROPELAB_ASSIGN_OR_RETURN(const std::string piece, file.ReadAt(source_bytes_, kCorpusPieceBytes));
      if (piece.empty()) return splitter_.End(visit);
      source_bytes_ += static_cast<int64_t>(piece.size());
      ROPELAB_RETURN_IF_ERROR(splitter_.Append(piece, visit));
    }
  }

  // Fills in what is known at the end; gives the index.
  std::string Finish(bool one_file) {
    row_->sha256 = hash_.FinishHex();
    row_->text_fields = splitter_.text_fields();
    return index_.Finish(one_file ? source_bytes_ : -1);
  }

 private:
  CorpusRow* const row_;
  const std::function<bool()>& stopping_;
  CorpusSplitter splitter_;
  CorpusHash hash_;
  CorpusIndexBuilder index_;
  int64_t source_bytes_ = 0;
};

}  // namespace

absl::StatusOr<std::string> CorpusFiles::Stamp(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return StampOfFile(path);
  ROPELAB_ASSIGN_OR_RETURN(const std::vector<std::string> names, TextFiles(path));
  Sha256 hash;
  for (const std::string& name : names) {
    ROPELAB_ASSIGN_OR_RETURN(const std::string stamp, StampOfFile(absl::StrCat(path, "/", name)));
    hash.Update(absl::StrCat(name, "\n", stamp, "\n"));
  }
  return hash.FinishHex();
}

absl::StatusOr<CorpusRow> CorpusFiles::IndexInPlace(const std::string& name, const std::string& kind,
                                                    const std::string& path,
                                                    const std::function<bool()>& stopping) {
  ROPELAB_RETURN_IF_ERROR(CheckCorpusName(name));
  ROPELAB_RETURN_IF_ERROR(CheckCorpusKind(kind));
  CorpusRow row;
  row.name = name;
  row.kind = kind;
  row.place = kInCorporaDir;
  row.path = path;
  ROPELAB_ASSIGN_OR_RETURN(row.stamp, Stamp(path));
  Indexer indexer(&row, stopping);
  std::error_code error;
  const bool folder = fs::is_directory(path, error);
  if (folder) {
    ROPELAB_ASSIGN_OR_RETURN(const std::vector<std::string> names, TextFiles(path));
    for (const std::string& file : names) {
      ROPELAB_RETURN_IF_ERROR(indexer.Read(absl::StrCat(path, "/", file), file));
    }
  } else {
    ROPELAB_RETURN_IF_ERROR(indexer.Read(path, ""));
  }
  const std::string index = indexer.Finish(!folder);
  if (row.bytes == 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": holds no text: give it one"));
  }
  ROPELAB_ASSIGN_OR_RETURN(const std::string after, Stamp(path));
  if (after != row.stamp) {
    return absl::AbortedError(absl::StrCat(path,
                                           " changed while it was read: restart the server once it is "
                                           "whole"));
  }
  const std::string unfinished = NewUnfinished();
  ROPELAB_ASSIGN_OR_RETURN(File file, File::Open(unfinished, O_RDWR | O_CREAT | O_TRUNC));
  absl::Status kept = file.WriteAt(0, index);
  if (kept.ok()) kept = file.Sync();
  if (kept.ok()) kept = Publish(row.sha256, {{unfinished, IndexPath(row)}});
  if (!kept.ok()) {
    unlink(unfinished.c_str());
    return kept;
  }
  return row;
}

}  // namespace ropelab::store
