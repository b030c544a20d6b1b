#include "server/experiments/head_set_imported.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <set>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "google/protobuf/descriptor.h"
#include "server/experiments/head_set_scored.h"
#include "server/experiments/retrieval_labels.h"

namespace ropelab::experiments {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr size_t kNameBytes = 200;
constexpr size_t kShortestHash = 8;
constexpr size_t kShownHash = 16;
constexpr size_t kNamesShown = 20;

absl::Status UnknownName(const std::string& typed, const std::vector<ImportedScores>& known) {
  constexpr char kHow[] = "`ropelab heads import NAME FILE` registers some";
  std::set<std::string> names;
  for (const ImportedScores& scores : known) {
    names.insert(scores.name);
  }
  if (names.empty()) {
    return absl::NotFoundError(absl::StrCat("no head scores are registered yet; ", kHow));
  }
  std::vector<std::string> shown(names.begin(), names.end());
  const size_t more = shown.size() > kNamesShown ? shown.size() - kNamesShown : 0;
  shown.resize(shown.size() - more);
  return absl::NotFoundError(absl::StrCat(typed.empty() ? "" : "no head scores of this name are registered; ",
                                          "known: ", absl::StrJoin(shown, ", "),
                                          more > 0 ? absl::StrCat(" and ", more, " more") : "", "; ", kHow));
}

absl::Status SayWhich(const char* why, const std::vector<ImportedScores>& found) {
  std::vector<std::string> choices;
  for (const ImportedScores& scores : found) {
    choices.push_back(absl::StrCat(scores.name, "@", scores.sha256.substr(0, kShownHash), " (",
                                   scores.heads.size(), " heads)"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(why, "; say which, the newest first: ", absl::StrJoin(choices, ", ")));
}

bool IsHex(const std::string& text) {
  return std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// Calls `visit` with every imported set of the message, in the order of its fields.
void ForEachImported(const Message& message, const std::function<void(const v1::ImportedHeads&)>& visit) {
  if (message.GetDescriptor() == v1::ImportedHeads::descriptor()) {
    visit(static_cast<const v1::ImportedHeads&>(message));
    return;
  }
  const auto* reflection = message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      continue;
    }
    if (!field->is_repeated()) {
      ForEachImported(reflection->GetMessage(message, field), visit);
      continue;
    }
    for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
      ForEachImported(reflection->GetRepeatedMessage(message, field, i), visit);
    }
  }
}

void WriteDefaults(Message& message, const Facts& facts) {
  if (message.GetDescriptor() == v1::RetrievalHeads::descriptor()) {
    auto& set = static_cast<v1::RetrievalHeads&>(message);
    if (!set.has_metric()) {
      set.set_metric(v1::Metric::ARGMAX);
    }
    return;
  }
  if (message.GetDescriptor() == v1::ImportedHeads::descriptor()) {
    auto& set = static_cast<v1::ImportedHeads&>(message);
    if (set.choice_case() == v1::ImportedHeads::CHOICE_NOT_SET) {
      set.set_threshold(kDefaultRetrievalThreshold);
    }
    if (const auto scores = FindHeadScores(facts.scores, set.name()); scores.ok()) {
      set.set_name(HeadScoresLabel(*scores));
    }
    return;
  }
  const auto* reflection = message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      continue;
    }
    if (!field->is_repeated()) {
      WriteDefaults(*reflection->MutableMessage(&message, field), facts);
      continue;
    }
    for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
      WriteDefaults(*reflection->MutableRepeatedMessage(&message, field, i), facts);
    }
  }
}

// The chosen ones of `scores`, ascending by layer and head.
std::vector<NamedHead> ChosenHeads(const v1::ImportedHeads& set, const ImportedScores& scores) {
  int64_t kept = 0;
  switch (set.choice_case()) {
    case v1::ImportedHeads::kTop:
      kept = std::min<int64_t>(set.top(), static_cast<int64_t>(scores.heads.size()));
      break;
    case v1::ImportedHeads::kTopShare:
      kept = ShareOf(set.top_share(), HeadsAt(scores, kDefaultRetrievalThreshold));
      break;
    default:
      kept = HeadsAt(scores, set.threshold());
  }
  const std::vector<size_t> order = RankedHeads(scores);
  std::vector<NamedHead> heads;
  for (int64_t i = 0; i < kept; ++i) {
    const ImportedScores::Head& head = scores.heads[order[static_cast<size_t>(i)]];
    heads.push_back({head.layer, head.head, std::nullopt});
  }
  std::sort(heads.begin(), heads.end(), [](const NamedHead& a, const NamedHead& b) {
    return std::tie(a.layer, a.head) < std::tie(b.layer, b.head);
  });
  return heads;
}

void CheckWithin(const ImportedScores& scores, const std::string& path, const Facts& facts,
                 Problems& problems) {
  for (const ModelFacts& model : facts.models) {
    for (const ImportedScores::Head& head : scores.heads) {
      if (head.layer >= model.config.layers() || head.head >= model.config.query_heads()) {
        problems.Add(path + ".name", scores.name,
                     absl::StrCat("scores L", head.layer, "H", head.head, ", and model ", model.name,
                                  " has layers 0 to ", model.config.layers() - 1, " of heads 0 to ",
                                  model.config.query_heads() - 1, "; name the scores of this model"));
        break;
      }
    }
  }
}

}  // namespace

absl::Status CheckHeadScoresName(const std::string& name) {
  const bool plain = !name.empty() && name.size() <= kNameBytes && IsPlainText(name) &&
                     name.find_first_of("/@") == std::string::npos && name.front() != ' ' &&
                     name.back() != ' ';
  return plain
             ? absl::OkStatus()
             : absl::InvalidArgumentError(absl::StrCat(
                   "head scores cannot be named \"", Printable(name, 60), "\": a name has 1 to ", kNameBytes,
                   " bytes of UTF-8 without control characters, '/' and '@', and no space at its ends"));
}

int64_t HeadsAt(const ImportedScores& scores, double threshold) {
  return std::count_if(scores.heads.begin(), scores.heads.end(),
                       [&](const ImportedScores::Head& head) { return head.mean >= threshold; });
}

std::vector<size_t> RankedHeads(const ImportedScores& scores) {
  std::vector<size_t> order(scores.heads.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const ImportedScores::Head& x = scores.heads[a];
    const ImportedScores::Head& y = scores.heads[b];
    return std::tie(y.mean, x.layer, x.head) < std::tie(x.mean, y.layer, y.head);
  });
  return order;
}

absl::StatusOr<ImportedScores> FindHeadScores(const std::vector<ImportedScores>& known,
                                              const std::string& typed) {
  const size_t at = typed.find('@');  // no name holds one
  const std::string name = typed.substr(0, at);
  std::vector<ImportedScores> named;
  std::copy_if(known.begin(), known.end(), std::back_inserter(named),
               [&](const ImportedScores& scores) { return scores.name == name; });
  if (named.empty()) {
    return UnknownName(typed, known);
  }
  if (at == std::string::npos) {
    return named.size() == 1 ? absl::StatusOr<ImportedScores>(named[0])
                             : SayWhich("the name stands for several contents", named);
  }
  const std::string hash = typed.substr(at + 1);
  if (hash.size() < kShortestHash || !IsHex(hash)) {
    return absl::InvalidArgumentError(
        absl::StrCat("after @ stands a hash of at least ", kShortestHash, " lower-case hex digits"));
  }
  std::vector<ImportedScores> found = named;
  std::erase_if(found, [&](const ImportedScores& one) { return !absl::StartsWith(one.sha256, hash); });
  if (found.empty()) {
    return SayWhich("no content of this name has such a hash", named);
  }
  return found.size() == 1 ? absl::StatusOr<ImportedScores>(found[0])
                           : SayWhich("the name stands for several contents", found);
}

std::string HeadScoresLabel(const ImportedScores& scores) {
  return absl::StrCat(scores.name, "@", scores.sha256);
}

std::vector<std::string> ImportedNames(const Message& message) {
  std::vector<std::string> names;
  ForEachImported(message, [&](const v1::ImportedHeads& set) {
    if (std::find(names.begin(), names.end(), set.name()) == names.end()) {
      names.push_back(set.name());
    }
  });
  return names;
}

void WriteHeadSetDefaults(v1::ExperimentSpec& spec, const Facts& facts) {
  WriteDefaults(spec, facts);
}

void ResolveImportedHeads(const v1::ImportedHeads& set, const std::string& path, const Facts& facts,
                          Problems& problems) {
  CheckChoice(set, path, problems);
  const absl::StatusOr<ImportedScores> scores = FindHeadScores(facts.scores, set.name());
  if (!scores.ok()) {
    const std::string remedy(scores.status().message());
    problems.Add(path + ".name", set.name(),
                 set.name().empty() ? absl::StrCat("name the scores: ", remedy) : remedy);
    return;
  }
  CheckWithin(*scores, path, facts, problems);
  if (!problems.empty()) {
    return;
  }
  const double best = scores->heads[RankedHeads(*scores).front()].mean;
  if (set.choice_case() == v1::ImportedHeads::kTop &&
      set.top() > static_cast<int64_t>(scores->heads.size())) {
    problems.Add(path + ".top", absl::StrCat(set.top()),
                 absl::StrCat("these scores are of ", scores->heads.size(), " heads"));
  } else if (ChosenHeads(set, *scores).empty()) {
    const bool share = set.choice_case() == v1::ImportedHeads::kTopShare;
    problems.Add(
        path + (share ? ".top_share" : ".threshold"), absl::StrCat(share ? set.top_share() : set.threshold()),
        absl::StrCat("no head has a mean score of ", share ? kDefaultRetrievalThreshold : set.threshold(),
                     " or more; the best has ", best, ": say a lower threshold, or top"));
  }
}

absl::StatusOr<std::vector<NamedHead>> ImportedHeadsOf(const v1::ImportedHeads& set, const Context& context) {
  for (const ImportedScores& scores : context.scores) {
    if (HeadScoresLabel(scores) == set.name()) {
      return ChosenHeads(set, scores);
    }
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "head scores ", set.name(), " are not registered any more; import them again under this name"));
}

}  // namespace ropelab::experiments
