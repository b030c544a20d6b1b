#include "server/experiments/model_names.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace ropelab::experiments {
namespace {

constexpr size_t kShortestHash = 8;
constexpr size_t kLabelHash = 16;
constexpr size_t kNamesShown = 20;

const std::string& HashOf(const ModelFacts& model) {
  return model.weights_hash.empty() ? model.config_hash : model.weights_hash;
}

// Checkpoints of this name; those that cannot be loaded only where no other is left, so that a directory that
// was mended (or is broken on one host) does not make its name ambiguous.
std::vector<ModelFacts> Named(const std::vector<ModelFacts>& known, const std::string& name) {
  std::vector<ModelFacts> loadable, broken;
  for (const ModelFacts& model : known) {
    if (model.name == name) {
      (model.problem.empty() ? loadable : broken).push_back(model);
    }
  }
  if (loadable.empty() && !broken.empty()) {
    return {broken.front()};
  }
  return loadable;
}

// `typed` empty: none was named, only the known ones are said.
absl::Status UnknownName(const std::string& typed, const std::vector<ModelFacts>& known) {
  std::set<std::string> names;
  for (const ModelFacts& model : known) {
    names.insert(model.name);
  }
  if (names.empty()) {
    return absl::NotFoundError("no worker has announced a model yet; start one with --models");
  }
  std::vector<std::string> shown(names.begin(), names.end());
  const size_t more = shown.size() > kNamesShown ? shown.size() - kNamesShown : 0;
  shown.resize(shown.size() - more);
  return absl::NotFoundError(absl::StrCat(
      typed.empty() ? "" : "no worker ever announced a model of this name; ",
      "known: ", absl::StrJoin(shown, ", "), more > 0 ? absl::StrCat(" and ", more, " more") : "",
      "; a worker looks through its folders every few seconds, so wait a moment after adding one"));
}

absl::Status Ambiguous(const std::string& name, const std::vector<ModelFacts>& found) {
  std::vector<std::string> choices;
  for (const ModelFacts& model : found) {
    choices.push_back(absl::StrCat(name, "@", HashOf(model).substr(0, kLabelHash)));
  }
  std::sort(choices.begin(), choices.end());
  return absl::InvalidArgumentError(
      absl::StrCat("the name stands for several checkpoints; say which: ", absl::StrJoin(choices, ", ")));
}

bool IsHex(const std::string& text) {
  return std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return std::isdigit(c) || (c >= 'a' && c <= 'f'); });
}

}  // namespace

absl::StatusOr<ModelFacts> FindModel(const std::vector<ModelFacts>& known, const std::string& typed) {
  std::string name = typed;
  std::string hash;
  std::vector<ModelFacts> found = Named(known, name);
  const size_t at = typed.rfind('@');
  if (found.empty() && at != std::string::npos) {
    name = typed.substr(0, at);
    hash = typed.substr(at + 1);
    found = Named(known, name);
  }
  if (found.empty()) {
    return UnknownName(typed, known);
  }
  if (at != std::string::npos && name != typed) {
    if (hash.size() < kShortestHash || !IsHex(hash)) {
      return absl::InvalidArgumentError(
          absl::StrCat("after @ stands a hash of at least ", kShortestHash, " lower-case hex digits"));
    }
    const std::vector<ModelFacts> all = found;
    found.erase(std::remove_if(found.begin(), found.end(),
                               [&](const ModelFacts& m) { return !absl::StartsWith(HashOf(m), hash); }),
                found.end());
    if (found.empty()) {
      return Ambiguous(name, all);
    }
  }
  if (found.size() > 1) {
    return Ambiguous(name, found);
  }
  if (!found[0].problem.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("the model cannot be loaded: ", found[0].problem));
  }
  return found[0];
}

std::string ModelLabel(const std::string& typed, const ModelFacts& model) {
  return typed == model.name ? typed : absl::StrCat(model.name, "@", HashOf(model).substr(0, kLabelHash));
}

v1::Dtype::Value DtypeOf(const v1::ExperimentSpec& spec, const ModelFacts& model) {
  if (spec.has_dtype()) {
    return spec.dtype();
  }
  const bool known = model.config.dtype() != v1::Dtype::UNSPECIFIED;
  return known ? model.config.dtype() : v1::Dtype::FLOAT32;
}

absl::StatusOr<v1::ModelIdentity> IdentityOf(const v1::ExperimentSpec& spec, const ModelFacts& model) {
  if (model.weights_hash.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the weights of model ", model.name, " are not hashed yet; tasks are planned after"));
  }
  v1::ModelIdentity identity;
  identity.set_weights_hash(model.weights_hash);
  identity.set_config_hash(model.config_hash);
  identity.set_tokenizer_hash(model.tokenizer_hash);
  identity.set_dtype(DtypeOf(spec, model));
  return identity;
}

}  // namespace ropelab::experiments
