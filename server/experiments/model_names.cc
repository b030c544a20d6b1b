#include "server/experiments/model_names.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/nearest_name.h"

namespace ropelab::experiments {
namespace {

constexpr size_t kShortestHash = 8;
constexpr size_t kLabelHash = 16;
constexpr size_t kNamesShown = 20;
constexpr size_t kMostHashes = 2;
constexpr char kNoTokenizer[] = "none";

std::string HashOf(const ModelFacts& model) {
  return model.weights_hash.empty() ? model.config_hash : model.weights_hash;
}

std::string TokenizerOf(const ModelFacts& model) {
  return model.tokenizer_hash.empty() ? kNoTokenizer : model.tokenizer_hash;
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
  // A hash is no part of the name; a name with an @ of its own is rare enough to do without the hint.
  const std::string nearest = NearestName(typed.substr(0, typed.find('@')), shown);
  shown.resize(shown.size() - more);
  const std::string unknown = typed.empty() ? "" : "no worker ever announced a model of this name";
  return absl::NotFoundError(absl::StrCat(
      unknown,
      !nearest.empty()  ? absl::StrCat(". Is \"", nearest, "\" meant? Known: ")
      : unknown.empty() ? "known: "
                        : "; known: ",
      absl::StrJoin(shown, ", "), more > 0 ? absl::StrCat(" and ", more, " more") : "",
      "; a worker looks through its folders every few seconds, so wait a moment after adding one"));
}

// As it may be written to tell it from the other models of its name.
std::string Written(const ModelFacts& model, const std::vector<ModelFacts>& named) {
  const auto alone = [&](const auto& hash) {
    return std::count_if(named.begin(), named.end(),
                         [&](const ModelFacts& other) { return hash(other) == hash(model); }) == 1;
  };
  const std::string of_weights = absl::StrCat(model.name, "@", HashOf(model).substr(0, kLabelHash));
  if (alone(HashOf)) {
    return of_weights;
  }
  const std::string tokenizer = TokenizerOf(model).substr(0, kLabelHash);
  return alone(TokenizerOf) ? absl::StrCat(model.name, "@", tokenizer)
                            : absl::StrCat(of_weights, "@", tokenizer);
}

// "toy@aaaaaaaaaaaaaaaa, toy@cccccccccccccccc"
std::string Choices(const std::vector<ModelFacts>& found) {
  std::set<std::string> choices;
  for (const ModelFacts& model : found) {
    choices.insert(Written(model, found));
  }
  return absl::StrJoin(choices, ", ");
}

absl::Status UnknownHash(const std::vector<std::string>& hashes, const std::vector<ModelFacts>& found) {
  return absl::InvalidArgumentError(
      absl::StrCat("no checkpoint of the name has ",
                   hashes.size() > 1 ? "hashes that begin with " : "a hash that begins with ",
                   absl::StrJoin(hashes, " and "), "; there is ", Choices(found)));
}

absl::Status Ambiguous(const std::vector<ModelFacts>& found) {
  const bool same_weights =
      found.size() > 1 && std::all_of(found.begin(), found.end(), [&](const ModelFacts& model) {
        return HashOf(model) == HashOf(found[0]);
      });
  return absl::InvalidArgumentError(absl::StrCat(
      same_weights ? "workers hold the checkpoint of this name with different tokenizers; put the same "
                     "tokenizer.json into all its directories, or say which: "
                   : "the name stands for several checkpoints; say which: ",
      Choices(found)));
}

bool IsHex(const std::string& text) {
  return std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return std::isdigit(c) || (c >= 'a' && c <= 'f'); });
}

// The hash of `model` that begins so; empty: none does.
std::string FullHash(const ModelFacts& model, const std::string& prefix) {
  if (absl::StartsWith(HashOf(model), prefix)) {
    return HashOf(model);
  }
  return absl::StartsWith(TokenizerOf(model), prefix) ? TokenizerOf(model) : "";
}

// What goes by the name in "name", "name@hash" or "name@hash@hash", and the hashes. A name may hold an @: the
// longest that is known counts.
std::pair<std::vector<ModelFacts>, std::vector<std::string>> Split(const std::vector<ModelFacts>& known,
                                                                   const std::string& typed) {
  std::string name = typed;
  std::vector<std::string> hashes;
  while (true) {
    std::vector<ModelFacts> found = Named(known, name);
    const size_t at = name.rfind('@');
    if (!found.empty() || at == std::string::npos || hashes.size() == kMostHashes) {
      return {std::move(found), std::move(hashes)};
    }
    hashes.insert(hashes.begin(), name.substr(at + 1));
    name.resize(at);
  }
}

}  // namespace

absl::StatusOr<ModelFacts> FindModel(const std::vector<ModelFacts>& known, const std::string& typed) {
  const auto [found, hashes] = Split(known, typed);
  if (found.empty()) {
    return UnknownName(typed, known);
  }
  std::vector<ModelFacts> meant = found;
  for (const std::string& hash : hashes) {
    if (hash != kNoTokenizer && (hash.size() < kShortestHash || !IsHex(hash))) {
      return absl::InvalidArgumentError(
          absl::StrCat("after @ stands a hash of at least ", kShortestHash, " lower-case hex digits"));
    }
    meant.erase(std::remove_if(meant.begin(), meant.end(),
                               [&](const ModelFacts& model) { return FullHash(model, hash).empty(); }),
                meant.end());
  }
  if (meant.empty()) {
    return UnknownHash(hashes, found);
  }
  if (meant.size() > 1) {
    return Ambiguous(meant);
  }
  if (!meant[0].problem.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("the model cannot be loaded: ", meant[0].problem));
  }
  return meant[0];
}

std::string ModelLabel(const std::string& typed, const ModelFacts& model) {
  std::string label = model.name;
  for (const std::string& hash : Split({model}, typed).second) {
    absl::StrAppend(&label, "@", FullHash(model, hash).substr(0, kLabelHash));
  }
  return label;
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
