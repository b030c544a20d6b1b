// Where the documents of a corpus lie: a file beside the content, small enough to be made in memory and read
// an entry at a time.
//
//   16 bytes "ropelab-corpus1\n"; documents; bytes of the one source file, or -1 where each document is a
//   file of its own; then 64 bytes a document: offset, bytes, offset and bytes of its file's name, SHA-256;
//   then the names. Numbers are 8 bytes, little-endian; the offset of a name counts from the file's start.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/store/file_io.h"

namespace ropelab::store {

class CorpusIndexBuilder {
 public:
  // `file` is the document's own file's name, or empty: it lies in the one source file.
  void Add(std::string_view document, int64_t offset, std::string_view file);
  int64_t documents() const { return documents_; }
  std::string Finish(int64_t source_bytes) const;

 private:
  std::string entries_, names_;
  int64_t documents_ = 0;
};

struct CorpusEntry {
  int64_t offset = 0, bytes = 0;
  std::string file, sha256;  // hex
  int64_t source_bytes = 0;  // of the source file; -1: the document's file is of `bytes`
};
// OUT_OF_RANGE: the index has no such document. DATA_LOSS: the file is no index, or was cut.
absl::StatusOr<CorpusEntry> ReadCorpusEntry(const File& index, int64_t document);

}  // namespace ropelab::store
