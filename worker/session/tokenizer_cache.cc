#include "worker/session/tokenizer_cache.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/sha256.h"
#include "common/status_macros.h"
#include "worker/formats/json_text.h"
#include "worker/formats/shards.h"
#include "worker/session/model_scan.h"

namespace ropelab::session {
namespace {

constexpr size_t kMostHeld = 4;
constexpr size_t kLargestFile = size_t{256} << 20;
constexpr size_t kShownHash = 16;

absl::Status Changed(const v1::Grant& grant, const std::string& path, const std::string& hash) {
  const std::string& wanted = grant.measurement().model().tokenizer_hash();
  return absl::FailedPreconditionError(
      absl::StrCat("model ", grant.model(), ": ", path, hash.empty() ? " is gone" : " changed",
                   ": the task is on ", wanted.empty() ? "none" : wanted.substr(0, kShownHash),
                   hash.empty() ? "" : absl::StrCat(", the file's hash is ", hash.substr(0, kShownHash)),
                   "; put the old file back or submit again"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const formats::Tokenizer>> TokenizerCache::Get(const v1::Grant& grant) {
  const std::string& wanted = grant.measurement().model().tokenizer_hash();
  ROPELAB_ASSIGN_OR_RETURN(const FoundModel found, FindModel(roots_, grant.model()));
  const std::string path = (std::filesystem::path(found.directory) / "tokenizer.json").string();
  ROPELAB_ASSIGN_OR_RETURN(const formats::FileStamps stamps,
                           formats::StampFiles(found.directory, {"tokenizer.json"}));
  if (stamps.newest_ns == 0) return Changed(grant, path, "");
  auto held = std::find_if(held_.begin(), held_.end(), [&](const Held& candidate) {
    return candidate.path == path && candidate.stamp == stamps.text;
  });
  if (held == held_.end()) {
    ROPELAB_ASSIGN_OR_RETURN(const std::string text, formats::ReadWholeFile(path, kLargestFile));
    Held read = {path, stamps.text, Sha256Hex(text), nullptr};
    if (read.hash != wanted) return Changed(grant, path, read.hash);
    ROPELAB_ASSIGN_OR_RETURN(read.tokenizer, formats::Tokenizer::Parse(text, path));
    std::erase_if(held_, [&](const Held& candidate) { return candidate.path == path; });
    held = held_.insert(held_.begin(), std::move(read));
    if (held_.size() > kMostHeld) held_.pop_back();
  }
  if (held->hash != wanted) return Changed(grant, path, held->hash);
  held_.splice(held_.begin(), held_, held);
  return held_.front().tokenizer;
}

}  // namespace ropelab::session
