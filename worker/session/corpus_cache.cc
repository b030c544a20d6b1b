#include "worker/session/corpus_cache.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/printable.h"
#include "common/status_macros.h"

namespace ropelab::session {
namespace {

constexpr size_t kHashDigits = 64;
constexpr size_t kShownName = 100;

// The name becomes a path.
bool IsSha256(const std::string& text) {
  return text.size() == kHashDigits && std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

}  // namespace

CorpusCache::CorpusCache(Options options)
    : on_disk_(!options.folder.empty()),
      memory_limit_(options.memory_limit),
      fetcher_(std::move(options.fetch)),
      files_(options.folder, options.folder_limit) {}

absl::StatusOr<std::string> CorpusCache::Document(const std::string& corpus, int64_t document,
                                                  FetchProgress progress) {
  if (!IsSha256(corpus) || document < 0) {
    return absl::InvalidArgumentError(absl::StrCat("document ", document, " of \"",
                                                   Printable(corpus, kShownName),
                                                   "\": a corpus is named by 64 hex digits, and its "
                                                   "documents count from 0"));
  }
  if (on_disk_) {
    if (std::optional<std::string> kept = files_.Read(corpus, document)) return *std::move(kept);
  } else if (const std::string* kept = Find(corpus, document)) {
    return *kept;
  }
  ROPELAB_ASSIGN_OR_RETURN(std::string bytes, fetcher_.Fetch(corpus, document, progress));
  if (on_disk_) {
    files_.Write(corpus, document, bytes);
  } else {
    Hold({corpus, document, bytes});
  }
  return bytes;
}

const std::string* CorpusCache::Find(const std::string& corpus, int64_t document) {
  const auto held = std::find_if(held_.begin(), held_.end(), [&](const Held& candidate) {
    return candidate.document == document && candidate.corpus == corpus;
  });
  if (held == held_.end()) return nullptr;
  held_.splice(held_.begin(), held_, held);
  return &held_.front().bytes;
}

void CorpusCache::Hold(Held held) {
  held_bytes_ += static_cast<int64_t>(held.bytes.size());
  held_.push_front(std::move(held));
  while (held_bytes_ > memory_limit_) {
    held_bytes_ -= static_cast<int64_t>(held_.back().bytes.size());
    held_.pop_back();
  }
}

}  // namespace ropelab::session
