#include "worker/session/verification.h"

#include <google/protobuf/util/json_util.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "spdlog/spdlog.h"
#include "worker/engine/numerics.h"
#include "worker/formats/json_text.h"
#include "worker/formats/safetensors_writer.h"

namespace ropelab::session {
namespace {

constexpr int kFormat = 1;
constexpr char kPrefix[] = "verification-";
constexpr char kSuffix[] = ".json";
// A report has some twenty facts of a hundred bytes. It goes to the server with every greeting.
constexpr size_t kMaxBytes = 100'000;
constexpr int kMaxFacts = 200;

absl::Status Damaged(const std::string& what) {
  return absl::InvalidArgumentError(what);
}

absl::StatusOr<v1::Verification> Read(const std::string& path, const std::string& weights_hash,
                                      const std::string& config_hash) {
  ROPELAB_ASSIGN_OR_RETURN(const nlohmann::json json, formats::ReadJsonObject(path, kMaxBytes));
  const auto holds = [&](const char* field, const nlohmann::json& wanted) {
    const auto found = json.find(field);
    return found != json.end() && *found == wanted;
  };
  if (!holds("format", kFormat)) return Damaged(absl::StrCat(path, ": format is not ", kFormat));
  if (!holds("weights_hash", weights_hash)) return Damaged(absl::StrCat(path, ": is of other weights"));
  if (!holds("config_hash", config_hash)) return Damaged(absl::StrCat(path, ": is of another config"));
  const auto body = json.find("verification");
  v1::Verification verification;
  if (body == json.end() || !google::protobuf::util::JsonStringToMessage(body->dump(), &verification).ok()) {
    return Damaged(absl::StrCat(path, ": verification is not a report"));
  }
  if (verification.engine_version() != engine::kEngineVersion) {
    return Damaged(absl::StrCat(path, ": is of another engine"));
  }
  bool passed = true;
  for (const v1::VerifiedFact& fact : verification.facts()) passed = passed && fact.passed();
  if (verification.facts_size() == 0 || verification.facts_size() > kMaxFacts ||
      passed != verification.passed()) {
    return Damaged(absl::StrCat(path, ": its facts do not add up"));
  }
  return verification;
}

}  // namespace

std::string VerificationPath(const std::string& cache_dir, const std::string& weights_hash,
                             const std::string& config_hash, const std::string& engine_version) {
  return (std::filesystem::path(cache_dir) /
          absl::StrCat(kPrefix, weights_hash, "-", config_hash, "-", engine_version, kSuffix))
      .string();
}

absl::Status WriteVerification(const std::string& cache_dir, const std::string& weights_hash,
                               const std::string& config_hash, const v1::Verification& verification) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string body;
  if (!google::protobuf::util::MessageToJsonString(verification, &body, options).ok()) {
    return absl::InternalError("the report cannot be written as JSON");
  }
  const nlohmann::json report = {{"format", kFormat},
                                 {"weights_hash", weights_hash},
                                 {"config_hash", config_hash},
                                 {"verification", nlohmann::json::parse(body)}};
  std::error_code error;
  std::filesystem::create_directories(cache_dir, error);
  return formats::WriteFileAtomically(
      VerificationPath(cache_dir, weights_hash, config_hash, verification.engine_version()),
      report.dump(1) + "\n");
}

std::string VerificationsStamp(const std::string& cache_dir) {
  std::vector<std::string> lines;
  std::error_code error;
  std::filesystem::directory_iterator files(cache_dir, error);
  for (; !error && files != std::filesystem::directory_iterator(); files.increment(error)) {
    const std::string name = files->path().filename().string();
    struct stat found {};
    if (absl::StartsWith(name, kPrefix) && absl::EndsWith(name, kSuffix) &&
        stat(files->path().c_str(), &found) == 0) {
      lines.push_back(absl::StrCat(name, ": ", found.st_ino, " ", found.st_size, " ", found.st_mtim.tv_sec,
                                   ".", found.st_mtim.tv_nsec, "\n"));
    }
  }
  std::sort(lines.begin(), lines.end());
  return absl::StrJoin(lines, "");
}

std::optional<v1::Verification> ReadVerification(const std::string& cache_dir,
                                                 const std::string& weights_hash,
                                                 const std::string& config_hash) {
  if (cache_dir.empty() || weights_hash.empty()) return std::nullopt;
  const std::string path = VerificationPath(cache_dir, weights_hash, config_hash, engine::kEngineVersion);
  absl::StatusOr<v1::Verification> read = Read(path, weights_hash, config_hash);
  if (read.ok()) return *std::move(read);
  if (!absl::IsNotFound(read.status())) {
    constexpr size_t kMessageBytes = 2000;
    spdlog::warn("a report of the parity gate is ignored: {}; run ropelab-worker verify again",
                 Printable(std::string(read.status().message()), kMessageBytes));
  }
  return std::nullopt;
}

}  // namespace ropelab::session
