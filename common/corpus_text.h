// What a corpus is made of, the same for the client that sends one and the server that keeps it.
//
// Kind "text": a document is a whole file. Kind "jsonl": a document is a line that is not blank, without its
// line end (LF or CR LF; a byte order mark before the first is dropped), and holds a JSON object. Either way
// a document is valid UTF-8 of at most 64 MiB; a NUL is a character like others.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "common/sha256.h"

namespace ropelab {

inline constexpr int64_t kLargestDocument = 64 << 20;
inline constexpr int64_t kCorpusPieceBytes = 1 << 20;

// INVALID_ARGUMENT with the remedy: 1 to 200 bytes of UTF-8 without control characters, '/' and '@', no space
// at either end.
absl::Status CheckCorpusName(const std::string& name);
absl::Status CheckCorpusKind(const std::string& kind);  // "text" or "jsonl"

// A corpus's identity: SHA-256 over, document after document, its length as 8 bytes little-endian and its
// bytes. How the documents lay in files makes no difference.
class CorpusHash {
 public:
  void Add(std::string_view document);
  std::string FinishHex() { return hash_.FinishHex(); }  // once

 private:
  Sha256 hash_;
};

struct CorpusDocument {
  std::string_view bytes;  // valid during the visit
  int64_t offset = 0;      // of its first byte in its source
};

// Cuts sources that come in pieces into documents, checked, in order. An INVALID_ARGUMENT names the source,
// the line or byte, and the remedy; after an error the splitter is of no further use. Holds one document at
// most.
class CorpusSplitter {
 public:
  using Visit = absl::FunctionRef<absl::Status(const CorpusDocument&)>;

  explicit CorpusSplitter(bool jsonl) : jsonl_(jsonl) {}

  // A source is a file: a document of kind text, all lines of kind jsonl. `name` is what errors call it.
  void Begin(std::string name);
  absl::Status Append(std::string_view piece, Visit visit);
  absl::Status End(Visit visit);

  // Of kind jsonl: the fields of the first line that hold strings, as far as their names are plain text.
  const std::vector<std::string>& text_fields() const { return text_fields_; }

 private:
  absl::Status Line(std::string_view line, int64_t offset, Visit visit);
  absl::Status TooLarge() const;
  std::string Place() const;  // "books.jsonl:12", "a.txt"

  const bool jsonl_;
  bool first_line_seen_ = false;
  std::string name_, held_;
  int64_t held_offset_ = 0, line_ = 1;
  std::vector<std::string> text_fields_;
};

}  // namespace ropelab
