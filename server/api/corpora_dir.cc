#include "server/api/corpora_dir.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "server/store/corpora.h"
#include "spdlog/spdlog.h"

namespace ropelab::api {
namespace {

namespace fs = std::filesystem;

constexpr size_t kShownBytes = 500;

struct Found {
  std::string kind, path;
};

bool HoldsTextFiles(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() == ".txt") {
      return true;
    }
  }
  return false;
}

std::optional<Found> CorpusAt(const fs::directory_entry& entry) {
  std::error_code error;
  const fs::path& path = entry.path();
  if (path.filename().string().front() == '.') {
    return std::nullopt;
  }
  if (entry.is_directory(error)) {
    return HoldsTextFiles(path) ? std::optional<Found>({"text", path.string()}) : std::nullopt;
  }
  if (!entry.is_regular_file(error)) {
    return std::nullopt;
  }
  if (path.extension() == ".txt") {
    return Found{"text", path.string()};
  }
  return path.extension() == ".jsonl" ? std::optional<Found>({"jsonl", path.string()}) : std::nullopt;
}

// By name; of two with one stem only the first counts.
std::map<std::string, Found> FindCorpora(const std::string& folder) {
  std::error_code error;
  const fs::path whole = fs::canonical(folder, error);
  std::vector<fs::directory_entry> entries;
  for (fs::directory_iterator entry(whole, error), end; !error && entry != end; entry.increment(error)) {
    entries.push_back(*entry);
  }
  if (error) {
    spdlog::warn("--corpora {} cannot be read: {}", Printable(folder, kShownBytes), error.message());
  }
  std::sort(entries.begin(), entries.end());
  std::map<std::string, Found> corpora;
  for (const fs::directory_entry& entry : entries) {
    std::optional<Found> found = CorpusAt(entry);
    if (!found.has_value()) {
      continue;
    }
    const bool folder_itself = entry.is_directory(error);
    const std::string name = folder_itself ? entry.path().filename().string() : entry.path().stem().string();
    const auto [place, added] = corpora.try_emplace(name, *found);
    if (!added) {
      spdlog::warn("{} and {} would both be corpus {}: the second is passed over; rename one and restart",
                   Printable(place->second.path, kShownBytes), Printable(found->path, kShownBytes),
                   Printable(name, kShownBytes));
    }
  }
  return corpora;
}

absl::Status RegisterOne(const ServiceContext& context, const std::string& name, const Found& found,
                         const std::vector<store::CorpusRow>& known, const std::function<bool()>& stopping) {
  store::CorpusFiles& files = context.store->corpora();
  ROPELAB_ASSIGN_OR_RETURN(const std::string stamp, store::CorpusFiles::Stamp(found.path));
  for (const store::CorpusRow& row : known) {
    if (row.name == name && row.path == found.path && row.kind == found.kind && row.stamp == stamp &&
        files.Problem(row).empty()) {
      return absl::OkStatus();
    }
  }
  ROPELAB_ASSIGN_OR_RETURN(store::CorpusRow row, files.IndexInPlace(name, found.kind, found.path, stopping));
  row.registered_us = context.clock->WallMicroseconds();
  ROPELAB_RETURN_IF_ERROR(context.store->WriteAndWait(
      [&](store::Connection& db) { return store::RegisterCorpus(db, row).status(); }));
  spdlog::info("corpus {}@{} registered from {}: {} documents, {} bytes", name, row.sha256, found.path,
               row.documents, row.bytes);
  return absl::OkStatus();
}

}  // namespace

void RegisterCorporaDir(const ServiceContext& context, const std::string& folder,
                        const std::function<bool()>& stopping) {
  std::vector<store::CorpusRow> known;
  const absl::Status read = context.store->Read([&](store::Connection& db) -> absl::Status {
    ROPELAB_ASSIGN_OR_RETURN(known, store::ListCorpora(db));
    return absl::OkStatus();
  });
  if (!read.ok()) {
    spdlog::error("--corpora {} is not registered: {}", folder, read.ToString());
    return;
  }
  for (const auto& [name, found] : FindCorpora(folder)) {
    if (stopping()) {
      return;
    }
    const absl::Status status = RegisterOne(context, name, found, known, stopping);
    if (!status.ok() && !absl::IsCancelled(status)) {
      spdlog::warn("{} is not registered as a corpus: {}", Printable(found.path, kShownBytes),
                   Printable(std::string(status.message()), kShownBytes));
    }
  }
}

}  // namespace ropelab::api
