#include "worker/formats/hash_cache.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/sha256.h"
#include "spdlog/spdlog.h"
#include "worker/formats/json_text.h"
#include "worker/formats/safetensors_writer.h"

namespace ropelab::formats {
namespace {

constexpr size_t kMaxCacheEntry = 10'000'000;

bool IsSha256(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

bool IsSettled(const FileStamps& stamps, int64_t wall_ns) {
  return stamps.newest_ns < wall_ns - kSettlingNs;
}

std::string HashCachePath(const std::string& directory, const std::string& cache_dir) {
  std::error_code error;
  std::filesystem::path real = std::filesystem::canonical(directory, error);
  if (error) real = directory;
  return (std::filesystem::path(cache_dir) /
          absl::StrCat("weights-", Sha256Hex(real.string()).substr(0, 32), ".json"))
      .string();
}

std::optional<std::string> ReadHashCache(const std::string& path, const FileStamps& stamps) {
  const absl::StatusOr<nlohmann::json> entry = ReadJsonObject(path, kMaxCacheEntry);
  if (!entry.ok()) return std::nullopt;
  const auto shards = entry->find("shards");
  const auto hash = entry->find("weights_hash");
  if (shards == entry->end() || hash == entry->end() || *shards != stamps.text || !hash->is_string()) {
    return std::nullopt;
  }
  std::string text = hash->get<std::string>();
  return IsSha256(text) ? std::optional<std::string>(std::move(text)) : std::nullopt;
}

void WriteHashCache(const std::string& path, const FileStamps& stamps, const std::string& hash) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  const nlohmann::json entry = {{"shards", stamps.text}, {"weights_hash", hash}};
  const absl::Status status =
      WriteFileAtomically(path, entry.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  if (!status.ok()) spdlog::warn("weights hash not cached: {}", std::string(status.message()));
}

}  // namespace ropelab::formats
