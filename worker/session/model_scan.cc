#include "worker/session/model_scan.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/mutex.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "spdlog/spdlog.h"
#include "worker/formats/checkpoint.h"
#include "worker/formats/shards.h"
#include "worker/formats/tokenizer/tokenizer.h"
#include "worker/model/check_headers.h"
#include "worker/session/config_message.h"
#include "worker/session/verification.h"

namespace ropelab::session {
namespace {

namespace fs = std::filesystem;

constexpr size_t kProblemBytes = 2000;

// Models are looked at anew before every session; the same complaint need not come each time.
void WarnOnce(const std::string& message) {
  static Mutex mutex;
  static std::set<std::string> said;
  MutexLock lock(&mutex);
  if (said.insert(message).second) spdlog::warn("{}", message);
}

void WarnUnusable(const std::string& name, const std::string& problem) {
  WarnOnce(absl::StrCat("model ", name, " cannot be used: ", problem));
}

// Not announced: a training's state and an optimizer's are stored in the same way, and are no models.
void WarnWithoutConfig(const fs::path& folder) {
  const std::string weights = formats::CheckpointFile(folder.string());
  if (weights.empty()) return;
  WarnOnce(absl::StrCat(Printable(folder.string(), kProblemBytes), ": config.json is missing beside ",
                        weights,
                        ", so that no model is announced; where it is one, copy its config.json there"));
}

// A tokenizer takes its time to read and says the same for the same bytes, whose hash is `hash`. No value:
// there is none that can be used, and the log says why. Models without one serve work on token ids.
std::optional<TokenizerFacts> ReadTokenizer(const FoundModel& model, const std::string& hash) {
  static Mutex mutex;
  static std::map<std::string, TokenizerFacts> known;
  if (hash.empty()) return std::nullopt;
  {
    MutexLock lock(&mutex);
    if (const auto found = known.find(hash); found != known.end()) return found->second;
  }
  const auto tokenizer = formats::Tokenizer::Read((fs::path(model.directory) / "tokenizer.json").string());
  if (!tokenizer.ok()) {
    WarnOnce(absl::StrCat("model ", model.name, " is used without its tokenizer: ",
                          Printable(std::string(tokenizer.status().message()), kProblemBytes)));
    return std::nullopt;
  }
  TokenizerFacts facts = FactsOf(**tokenizer);
  const absl::StatusOr<std::string> after = formats::TokenizerHash(model.directory);
  if (after.ok() && *after == hash) {  // not changed in between
    MutexLock lock(&mutex);
    known.emplace(hash, facts);
  }
  return facts;
}

absl::Status Fill(const FoundModel& model, v1::ModelAnnouncement& announcement) {
  ROPELAB_ASSIGN_OR_RETURN(const formats::ModelConfig config, formats::ReadConfig(model.directory));
  announcement.set_config_hash(formats::ConfigHash(config));
  ROPELAB_ASSIGN_OR_RETURN(const std::string hash, formats::TokenizerHash(model.directory));
  announcement.set_tokenizer_hash(hash);
  const std::optional<TokenizerFacts> tokenizer = ReadTokenizer(model, hash);
  if (tokenizer.has_value() && tokenizer->vocabulary > config.vocabulary) {
    WarnOnce(absl::StrCat("model ", model.name, ": tokenizer.json makes ids up to ",
                          tokenizer->vocabulary - 1, " and the embedding has ", config.vocabulary,
                          " rows; a text that needs a larger id will be refused"));
  }
  *announcement.mutable_config() = ToMessage(config, tokenizer.has_value() ? &*tokenizer : nullptr);
  ROPELAB_ASSIGN_OR_RETURN(const formats::Checkpoint checkpoint, formats::Checkpoint::Open(model.directory));
  announcement.set_bytes(checkpoint.bytes());
  return model::CheckHeaders(checkpoint, model.directory, config);
}

}  // namespace

absl::StatusOr<std::vector<FoundModel>> FindModels(const std::vector<std::string>& roots) {
  std::vector<FoundModel> found;
  for (const std::string& root : roots) {
    std::error_code error;
    fs::directory_iterator entries(root, error);
    if (error) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--models ", root, ": ", error.message(), "; give a directory that holds one directory per model"));
    }
    for (; entries != fs::directory_iterator(); entries.increment(error)) {
      if (error) break;
      const fs::path path = entries->path();
      std::error_code unreadable;
      if (!fs::exists(path / "config.json", unreadable)) {
        WarnWithoutConfig(path);
        continue;
      }
      const std::string name = path.filename().string();
      if (!IsPlainText(name)) {
        WarnUnusable(
            Printable(name, name.size()),
            absl::StrCat("its name in ", root, " holds a control character or is not UTF-8; rename it"));
        continue;
      }
      const auto twin =
          std::find_if(found.begin(), found.end(), [&](const FoundModel& m) { return m.name == name; });
      if (twin != found.end()) {
        WarnOnce(absl::StrCat("model ", name, " lies in ", twin->directory, " and in ", path.string(),
                              "; the first is used"));
        continue;
      }
      found.push_back({name, path.string()});
    }
  }
  std::sort(found.begin(), found.end(),
            [](const FoundModel& a, const FoundModel& b) { return a.name < b.name; });
  return found;
}

std::string ModelsStamp(const std::vector<std::string>& roots, const std::string& cache_dir) {
  const absl::StatusOr<std::vector<FoundModel>> models = FindModels(roots);
  if (!models.ok()) return models.status().ToString();
  std::string stamp;
  for (const FoundModel& model : *models) {
    const absl::StatusOr<std::string> files = formats::DirectoryStamp(model.directory);
    absl::StrAppend(&stamp, model.directory, ": ", files.ok() ? *files : files.status().ToString(), "\n");
  }
  return absl::StrCat(stamp, VerificationsStamp(cache_dir));
}

std::string NoModelsAdvice(const std::vector<std::string>& roots) {
  for (const std::string& root : roots) {
    std::error_code unreadable;
    if (fs::exists(fs::path(root) / "config.json", unreadable)) {
      return absl::StrCat("no model found: ", root,
                          " is itself a model; give the folder that holds it to --models");
    }
  }
  return absl::StrCat(
      "no model found", roots.empty() ? "" : absl::StrCat(" under ", absl::StrJoin(roots, ", ")),
      ": --models wants folders that hold one folder with a config.json for each model; until then only "
      "experiments without a model run here");
}

absl::StatusOr<FoundModel> FindModel(const std::vector<std::string>& roots, const std::string& name) {
  // A name comes over the wire: only a plain one may become a path.
  const bool plain = !name.empty() && name.find('/') == std::string::npos && name != "." && name != "..";
  for (const std::string& root : roots) {
    const fs::path path = fs::path(root) / name;
    std::error_code error;
    if (plain && fs::exists(path / "config.json", error)) return FoundModel{name, path.string()};
  }
  return absl::NotFoundError(absl::StrCat("model ", name, " is not under ", absl::StrJoin(roots, ", "),
                                          " (a directory with a config.json)"));
}

v1::ModelAnnouncement Announce(const FoundModel& model, const std::string& cache_dir) {
  v1::ModelAnnouncement announcement;
  announcement.set_name(model.name);
  if (const absl::Status status = Fill(model, announcement); !status.ok()) {
    announcement.set_problem(Printable(std::string(status.message()), kProblemBytes));
    WarnUnusable(model.name, announcement.problem());
    return announcement;
  }
  // Refusing to go on stops before the first byte unless the cache answers.
  const absl::StatusOr<std::string> known =
      formats::WeightsHash(model.directory, cache_dir, [](int64_t, int64_t) { return false; });
  if (!known.ok()) return announcement;
  announcement.set_weights_hash(*known);
  if (auto report = ReadVerification(cache_dir, *known, announcement.config_hash()))
    *announcement.mutable_verification() = *std::move(report);
  return announcement;
}

}  // namespace ropelab::session
