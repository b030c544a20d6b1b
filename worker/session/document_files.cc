#include "worker/session/document_files.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/sha256.h"
#include "spdlog/spdlog.h"
#include "worker/formats/json_text.h"

namespace ropelab::session {
namespace {

namespace fs = std::filesystem;

constexpr size_t kHashDigits = 64;
constexpr size_t kLargestFile = size_t{1} << 30;  // beyond any document
constexpr char kTemporary[] = ".new";
constexpr std::chrono::hours kAbandoned{1};  // a temporary file this old belongs to a process that died

struct Found {
  fs::file_time_type used;
  fs::path path;
  int64_t bytes = 0;
};

// Over the place too: a whole file in another's place is as wrong as a torn one.
std::string Seal(const std::string& corpus, int64_t document, std::string_view bytes) {
  Sha256 hash;
  hash.Update(absl::StrCat(corpus, "/", document, "\n"));
  hash.Update(bytes);
  return hash.FinishHex();
}

}  // namespace

std::string DocumentFiles::PathOf(const std::string& corpus, int64_t document) const {
  return (fs::path(folder_) / corpus / std::to_string(document)).string();
}

// A file is the seal, a line end, the bytes.
std::optional<std::string> DocumentFiles::Read(const std::string& corpus, int64_t document) {
  const std::string path = PathOf(corpus, document);
  absl::StatusOr<std::string> bytes = formats::ReadWholeFile(path, kLargestFile);
  if (absl::IsNotFound(bytes.status())) return std::nullopt;
  std::error_code ignored;
  if (!bytes.ok() || bytes->size() <= kHashDigits || (*bytes)[kHashDigits] != '\n' ||
      Seal(corpus, document, std::string_view(*bytes).substr(kHashDigits + 1)) !=
          bytes->substr(0, kHashDigits)) {
    spdlog::warn("{} is damaged and fetched anew", path);
    fs::remove(path, ignored);
    return std::nullopt;
  }
  fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
  bytes->erase(0, kHashDigits + 1);
  return *std::move(bytes);
}

void DocumentFiles::Write(const std::string& corpus, int64_t document, std::string_view bytes) {
  if (static_cast<int64_t>(bytes.size()) > limit_) return;
  const fs::path path = PathOf(corpus, document);
  const fs::path temporary = absl::StrCat(path.string(), ".", getpid(), kTemporary);
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  {
    std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
    file << Seal(corpus, document, bytes) << '\n' << bytes;
    file.close();
    if (!file && !error) error = std::error_code(errno, std::generic_category());
  }
  // Not synced: what a power cut tears does not have its hash.
  if (!error) fs::rename(temporary, path, error);
  if (error) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    if (!complained_) {
      spdlog::warn("{}: {}; documents of corpora are not kept there", path.string(), error.message());
    }
    complained_ = true;
    return;
  }
  unseen_bytes_ += static_cast<int64_t>(bytes.size());
  if (unseen_bytes_ > limit_ / 32) RemoveOldest();
}

void DocumentFiles::RemoveOldest() {
  unseen_bytes_ = 0;
  std::vector<Found> found;
  int64_t total = 0;
  std::error_code error;
  const auto now = fs::file_time_type::clock::now();
  for (auto entry = fs::recursive_directory_iterator(folder_, error);
       !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    std::error_code gone;  // another worker may remove it under our eyes
    if (!entry->is_regular_file(gone)) continue;
    const Found file = {entry->last_write_time(gone), entry->path(),
                        static_cast<int64_t>(entry->file_size(gone))};
    if (gone) continue;
    if (file.path.extension() == kTemporary) {
      if (now - file.used > kAbandoned) fs::remove(file.path, gone);
      continue;
    }
    total += file.bytes;
    found.push_back(file);
  }
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.used < b.used; });
  for (size_t i = 0; i < found.size() && total > limit_; ++i) {
    std::error_code ignored;
    fs::remove(found[i].path, ignored);
    total -= found[i].bytes;
  }
}

}  // namespace ropelab::session
