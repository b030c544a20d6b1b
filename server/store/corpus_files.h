// What corpora consist of: data-dir/corpora/<sha256>/content with index beside it, or a file or folder under
// --corpora, read where it lies, with index-<its path's hash> in the same place (corpus_index.h). Everything
// is synced before a row may name it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/corpus_text.h"
#include "common/mutex.h"
#include "server/store/corpora.h"
#include "server/store/corpus_index.h"
#include "server/store/file_io.h"

namespace ropelab::store {

class CorpusUpload;

// One document, opened. One thread.
class CorpusReader {
 public:
  int64_t bytes() const { return entry_.bytes; }
  // The document in order, in pieces of at most kCorpusPieceBytes, none for an empty one; then its SHA-256.
  // DATA_LOSS, perhaps after all of the pieces: they are not what was registered.
  absl::StatusOr<std::string> ForEachPiece(absl::FunctionRef<absl::Status(std::string)> visit) const;

 private:
  friend class CorpusFiles;
  CorpusReader(File file, CorpusEntry entry, CorpusRow row, std::string path)
      : file_(std::move(file)), entry_(std::move(entry)), row_(std::move(row)), path_(std::move(path)) {}
  File file_;
  CorpusEntry entry_;
  CorpusRow row_;
  std::string path_;
};

// Any thread. A full disk is RESOURCE_EXHAUSTED.
class CorpusFiles {
 public:
  explicit CorpusFiles(std::string folder);

  // Makes the folder and removes what no row names: cut uploads, and contents whose row never came. At start
  // only.
  absl::Status Sweep(const std::vector<CorpusRow>& rows);

  // Begins a corpus whose content comes in pieces and stays in the data directory.
  absl::StatusOr<std::unique_ptr<CorpusUpload>> Begin(const std::string& name, const std::string& kind);

  // Reads a file or folder (its *.txt files in name order) under --corpora whole and keeps its index: the row
  // to register, without user and time. INVALID_ARGUMENT names the file and what is wrong with its content;
  // ABORTED when it changed meanwhile; CANCELLED when `stopping` said so.
  absl::StatusOr<CorpusRow> IndexInPlace(const std::string& name, const std::string& kind,
                                         const std::string& path, const std::function<bool()>& stopping);
  // What stat says of a file, or of the *.txt files of a folder; equal means unchanged.
  static absl::StatusOr<std::string> Stamp(const std::string& path);

  // NOT_FOUND: there is no such document. DATA_LOSS: what holds it is gone or changed in size.
  absl::StatusOr<CorpusReader> Open(const CorpusRow& row, int64_t document) const;
  // Why the corpus cannot be read now, as far as sizes and times tell; empty: nothing.
  std::string Problem(const CorpusRow& row) const;

 private:
  friend class CorpusUpload;
  std::string ContentPath(const std::string& sha256) const;
  std::string IndexPath(const CorpusRow& row) const;
  // Puts synced files of data-dir/corpora/unfinished in their place. An earlier file of that name gives way:
  // it holds the same, or is damaged.
  struct Move {
    std::string from, to;
  };
  absl::Status Publish(const std::string& sha256, const std::vector<Move>& moves);
  std::string NewUnfinished();

  const std::string folder_;
  Mutex publish_mutex_;
  int64_t unfinished_ ROPELAB_GUARDED_BY(publish_mutex_) = 0;
};

// One thread at a time. What is not finished leaves nothing.
class CorpusUpload {
 public:
  ~CorpusUpload();
  // The next bytes; `ends` marks the last ones of a document (of the file, for kind jsonl). INVALID_ARGUMENT
  // says what is wrong with them; then the upload is over.
  absl::Status Append(std::string_view piece, bool ends);
  // Durable when it returns: the row to register, without user and time. `still_wanted` is asked last: where
  // it fails, nothing stays.
  absl::StatusOr<CorpusRow> Finish(absl::FunctionRef<absl::Status()> still_wanted);

 private:
  friend class CorpusFiles;
  CorpusUpload(CorpusFiles* files, std::string name, std::string kind, std::string path, File content);
  absl::Status Keep(std::string_view bytes);
  absl::Status Flush();

  CorpusFiles* const files_;
  CorpusRow row_;
  const std::string path_;  // of the content; the index is path_ + ".index"
  File content_;
  CorpusSplitter splitter_;
  CorpusHash hash_;
  CorpusIndexBuilder index_;
  std::string held_;  // not written yet: lines may be short
  int64_t written_ = 0;
  bool inside_ = false;  // of a document or file
};

}  // namespace ropelab::store
