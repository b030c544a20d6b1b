#include "server/experiments/corpus_names.h"

#include <algorithm>
#include <functional>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace ropelab::experiments {
namespace {

constexpr size_t kShortestHash = 8;
constexpr size_t kShownHash = 16;
constexpr size_t kNamesShown = 20;

// `typed` empty: none was named, only the known ones are said.
absl::Status UnknownName(const std::string& typed, const std::vector<CorpusFacts>& known) {
  constexpr char kHow[] = "`ropelab corpora add NAME PATH` registers one";
  std::set<std::string> names;
  for (const CorpusFacts& corpus : known) {
    names.insert(corpus.name);
  }
  if (names.empty()) {
    return absl::NotFoundError(absl::StrCat("no corpus is registered yet; ", kHow));
  }
  std::vector<std::string> shown(names.begin(), names.end());
  const size_t more = shown.size() > kNamesShown ? shown.size() - kNamesShown : 0;
  shown.resize(shown.size() - more);
  return absl::NotFoundError(absl::StrCat(typed.empty() ? "" : "no corpus of this name is registered; ",
                                          "known: ", absl::StrJoin(shown, ", "),
                                          more > 0 ? absl::StrCat(" and ", more, " more") : "", "; ", kHow));
}

// `found` as registered: the last one first.
absl::Status SayWhich(const char* why, const std::vector<CorpusFacts>& found) {
  std::vector<std::string> choices;
  for (const CorpusFacts& corpus : found) {
    choices.push_back(absl::StrCat(corpus.name, "@", corpus.sha256.substr(0, kShownHash), " (",
                                   corpus.documents, " documents, ", corpus.bytes, " bytes)"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(why, "; say which, the newest first: ", absl::StrJoin(choices, ", ")));
}

bool IsHex(const std::string& text) {
  return std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace

absl::StatusOr<CorpusFacts> FindCorpus(const std::vector<CorpusFacts>& known, const std::string& typed) {
  const size_t at = typed.find('@');  // no name holds one
  const std::string name = typed.substr(0, at);
  std::vector<CorpusFacts> named;
  std::copy_if(known.begin(), known.end(), std::back_inserter(named),
               [&](const CorpusFacts& corpus) { return corpus.name == name; });
  if (named.empty()) {
    return UnknownName(typed, known);
  }
  std::vector<CorpusFacts> found = named;
  if (at != std::string::npos) {
    const std::string hash = typed.substr(at + 1);
    if (hash.size() < kShortestHash || !IsHex(hash)) {
      return absl::InvalidArgumentError(
          absl::StrCat("after @ stands a hash of at least ", kShortestHash, " lower-case hex digits"));
    }
    found.erase(std::remove_if(found.begin(), found.end(),
                               [&](const CorpusFacts& c) { return !absl::StartsWith(c.sha256, hash); }),
                found.end());
    if (found.empty()) {
      return SayWhich("no content of this name has such a hash", named);
    }
  }
  // A file under --corpora that was replaced leaves an entry of its old content behind.
  const auto readable = [](const CorpusFacts& corpus) { return corpus.problem.empty(); };
  if (std::any_of(found.begin(), found.end(), readable)) {
    found.erase(std::remove_if(found.begin(), found.end(), std::not_fn(readable)), found.end());
  } else {
    found.resize(1);
  }
  if (found.size() > 1) {
    return SayWhich("the name stands for several contents", found);
  }
  if (!found[0].problem.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("the corpus cannot be read: ", found[0].problem));
  }
  return found[0];
}

std::string CorpusLabel(const CorpusFacts& corpus) {
  return absl::StrCat(corpus.name, "@", corpus.sha256);
}

absl::StatusOr<CorpusFacts> FindResolvedCorpus(const std::vector<CorpusFacts>& known,
                                               const std::string& label) {
  for (const CorpusFacts& corpus : known) {
    if (CorpusLabel(corpus) == label) {
      return corpus;
    }
  }
  return absl::FailedPreconditionError(
      absl::StrCat("corpus ", label, " is not registered any more; add it again under this name"));
}

}  // namespace ropelab::experiments
