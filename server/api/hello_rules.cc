#include "server/api/hello_rules.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/printable.h"
#include "spdlog/spdlog.h"

namespace ropelab::api {
namespace {

constexpr size_t kIdBytes = 200;
constexpr int kMostHeld = 64;
constexpr int kMostModels = 10'000;
// Far beyond any checkpoint, and small enough that products of three of them and a length fit 64 bits.
constexpr int64_t kMostLayers = 10'000;
constexpr int64_t kMostHeads = 100'000;
constexpr int64_t kMostDimensions = 1'000'000;
constexpr int64_t kMostTokens = 1'000'000'000;

bool IsName(const std::string& text) {
  return !text.empty() && text.size() <= kIdBytes && IsPlainText(text);
}

// Of a name that may be no name.
std::string Shown(const std::string& name) {
  std::string shown = Printable(name, kIdBytes);
  std::replace(shown.begin(), shown.end(), '\n', '?');
  return shown;
}

std::string Outside(const char* what, int64_t value, int64_t least, int64_t most) {
  return value >= least && value <= most
             ? ""
             : absl::StrCat(what, " ", value, " is not within ", least, " to ", most);
}

// Empty: it can be.
std::string WhyImpossible(const v1::ModelAnnouncement& model) {
  const v1::ModelConfig& config = model.config();
  for (const std::string& problem : {
           Outside("layers", config.layers(), 1, kMostLayers),
           Outside("query_heads", config.query_heads(), 1, kMostHeads),
           Outside("kv_heads", config.kv_heads(), 1, std::max<int64_t>(config.query_heads(), 1)),
           Outside("head_dim", config.head_dim(), 1, kMostDimensions),
           Outside("hidden_size", config.hidden_size(), 1, kMostDimensions),
           Outside("vocabulary", config.vocabulary(), 1, kMostTokens),
           Outside("max_positions", config.max_positions(), 1, kMostTokens),
           Outside("bytes", model.bytes(), 0, INT64_MAX),
       }) {
    if (!problem.empty()) {
      return problem;
    }
  }
  if (!IsPlainText(model.weights_hash()) || !IsPlainText(model.config_hash()) ||
      !IsPlainText(model.tokenizer_hash())) {
    return "a hash is no plain text";
  }
  if (config.query_heads() % config.kv_heads() != 0) {
    return absl::StrCat("query_heads ", config.query_heads(), " is no multiple of kv_heads ",
                        config.kv_heads());
  }
  if (!std::all_of(config.inv_freq().begin(), config.inv_freq().end(),
                   [](double value) { return std::isfinite(value); })) {
    return "inv_freq holds a number that is not finite";
  }
  return "";
}

}  // namespace

absl::Status CheckHello(const v1::Hello& hello) {
  const std::string shown = Shown(hello.worker_id());
  if (!IsName(hello.worker_id())) {
    return absl::InvalidArgumentError(absl::StrCat("Hello with worker_id '", shown, "': a name of 1 to ",
                                                   kIdBytes,
                                                   " bytes without control characters is needed (--id)"));
  }
  if (!IsName(hello.incarnation())) {
    return absl::InvalidArgumentError(
        absl::StrCat("Hello of worker ", shown, " without an incarnation of 1 to ", kIdBytes, " bytes"));
  }
  if (hello.protocol_first() > kProtocol || hello.protocol_last() < kProtocol) {
    return absl::FailedPreconditionError(absl::StrCat(
        "worker ", shown, " speaks protocol ", hello.protocol_first(), " to ", hello.protocol_last(),
        ", this server speaks ", kProtocol, ": update the older of the two"));
  }
  if (!IsName(hello.numerics().hash())) {
    return absl::InvalidArgumentError(absl::StrCat("Hello of worker ", shown, " without a numerics class"));
  }
  if (hello.held_size() > kMostHeld) {
    return absl::InvalidArgumentError(absl::StrCat("Hello of worker ", shown, " with ", hello.held_size(),
                                                   " held leases; at most ", kMostHeld, " are understood"));
  }
  if (hello.models_size() > kMostModels) {
    return absl::InvalidArgumentError(absl::StrCat("Hello of worker ", shown, " with ", hello.models_size(),
                                                   " models; at most ", kMostModels, " are understood"));
  }
  return absl::OkStatus();
}

void CheckAnnouncements(v1::Hello& hello) {
  auto* models = hello.mutable_models();
  const auto unusable = [&](const v1::ModelAnnouncement& model) {
    if (IsName(model.name())) {
      return false;
    }
    spdlog::warn("worker {} announces a model '{}', which is no plain name of at most {} bytes: passed over",
                 hello.worker_id(), Shown(model.name()), kIdBytes);
    return true;
  };
  models->erase(std::remove_if(models->begin(), models->end(), unusable), models->end());
  for (v1::ModelAnnouncement& model : *models) {
    if (!model.problem().empty()) {
      continue;
    }
    if (const std::string why = WhyImpossible(model); !why.empty()) {
      model.set_problem(
          absl::StrCat("worker ", hello.worker_id(), " announces a configuration that cannot be: ", why));
      spdlog::warn("model {}: {}", model.name(), model.problem());
      model.clear_config();
    }
  }
}

}  // namespace ropelab::api
