#include "server/store/corpus_index.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/corpus_text.h"
#include "common/sha256.h"
#include "common/status_macros.h"

namespace ropelab::store {
namespace {

constexpr std::string_view kMagic = "ropelab-corpus1\n";
constexpr int64_t kHeaderBytes = 32;
constexpr int64_t kEntryBytes = 64;
constexpr int64_t kLongestName = 4096;

void Put(std::string& to, int64_t number) {
  for (int shift = 0; shift < 64; shift += 8) {
    to.push_back(static_cast<char>(static_cast<uint64_t>(number) >> shift & 0xFF));
  }
}

int64_t Get(std::string_view from, size_t at) {
  uint64_t number = 0;
  for (size_t i = 0; i < 8; ++i) {
    number |= static_cast<uint64_t>(static_cast<unsigned char>(from[at + i])) << (8 * i);
  }
  return static_cast<int64_t>(number);
}

absl::Status Damaged(const char* what) {
  return absl::DataLossError(absl::StrCat("its index is damaged: ", what));
}

}  // namespace

void CorpusIndexBuilder::Add(std::string_view document, int64_t offset, std::string_view file) {
  Put(entries_, offset);
  Put(entries_, static_cast<int64_t>(document.size()));
  Put(entries_, static_cast<int64_t>(names_.size()));  // from the first name: Finish knows where that is
  Put(entries_, static_cast<int64_t>(file.size()));
  entries_ += absl::HexStringToBytes(Sha256Hex(document));
  names_ += file;
  ++documents_;
}

std::string CorpusIndexBuilder::Finish(int64_t source_bytes) const {
  std::string index(kMagic);
  Put(index, documents_);
  Put(index, source_bytes);
  index += entries_;
  const auto names = static_cast<int64_t>(index.size());
  for (int64_t i = 0; i < documents_; ++i) {
    const size_t at = static_cast<size_t>(kHeaderBytes + i * kEntryBytes) + 16;
    std::string moved;
    Put(moved, names + Get(index, at));
    index.replace(at, moved.size(), moved);
  }
  return index + names_;
}

absl::StatusOr<CorpusEntry> ReadCorpusEntry(const File& index, int64_t document) {
  ROPELAB_ASSIGN_OR_RETURN(const std::string header, index.ReadAt(0, kHeaderBytes));
  if (static_cast<int64_t>(header.size()) != kHeaderBytes || header.compare(0, kMagic.size(), kMagic) != 0) {
    return Damaged("it has no header");
  }
  const int64_t documents = Get(header, kMagic.size());
  if (document < 0 || document >= documents) {
    return absl::OutOfRangeError(absl::StrCat("it has the documents 0 to ", documents - 1));
  }
  ROPELAB_ASSIGN_OR_RETURN(const std::string bytes,
                           index.ReadAt(kHeaderBytes + document * kEntryBytes, kEntryBytes));
  if (static_cast<int64_t>(bytes.size()) != kEntryBytes) {
    return Damaged("it was cut");
  }
  CorpusEntry entry;
  entry.offset = Get(bytes, 0);
  entry.bytes = Get(bytes, 8);
  entry.source_bytes = Get(header, kMagic.size() + 8);
  entry.sha256 = absl::BytesToHexString(absl::string_view(bytes).substr(32));
  const int64_t name_bytes = Get(bytes, 24);
  if (entry.offset < 0 || entry.bytes < 0 || entry.bytes > kLargestDocument || name_bytes < 0 ||
      name_bytes > kLongestName) {
    return Damaged("an entry is impossible");
  }
  ROPELAB_ASSIGN_OR_RETURN(entry.file, index.ReadAt(Get(bytes, 16), name_bytes));
  return entry;
}

}  // namespace ropelab::store
