#include "server/experiments/head_set.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/experiments/earlier_tables.h"
#include "server/experiments/head_set_scored.h"
#include "server/experiments/retrieval_labels.h"

namespace ropelab::experiments {
namespace {

void ResolveList(const v1::HeadList& list, const std::string& path, const Facts& facts, Problems& problems) {
  std::set<std::pair<int64_t, int64_t>> seen;
  if (list.head_size() == 0) {
    problems.Add(path + ".list", "", "name at least one head { layer head }");
  }
  for (int i = 0; i < list.head_size(); ++i) {
    const v1::Head& head = list.head(i);
    const std::string at = absl::StrCat(path, ".list.head[", i, "]");
    if (!head.has_layer() || !head.has_head()) {
      problems.Add(at, "", "a head has a layer and a head, both from 0");
      continue;
    }
    const std::string name = absl::StrCat("L", head.layer(), "H", head.head());
    for (const ModelFacts& model : facts.models) {
      const bool within = head.layer() >= 0 && head.layer() < model.config.layers() && head.head() >= 0 &&
                          head.head() < model.config.query_heads();
      if (!within) {
        problems.Add(at, name,
                     absl::StrCat("model ", model.name, " has layers 0 to ", model.config.layers() - 1,
                                  " of heads 0 to ", model.config.query_heads() - 1));
      }
    }
    if (head.has_offset() && head.offset() < 0) {
      problems.Add(at + ".offset", absl::StrCat(head.offset()), "an offset is 0 tokens back or more");
    }
    if (!seen.insert({head.layer(), head.head()}).second) {
      problems.Add(at, name, "is named twice; name each head once");
    }
  }
}

void ResolveSlashDominant(const v1::SlashDominantHeads& set, const std::string& path, Problems& problems) {
  const std::string at = path + ".slash_dominant";
  if (set.experiment().empty()) {
    problems.Add(at + ".experiment", "", "name the slash detection of this study that finds the heads");
  }
  if (set.has_threshold() + set.has_top() + set.has_top_share() > 1) {
    problems.Add(at, "", "says more than one of threshold, top and top_share; choose one");
  }
  if (set.has_threshold() && !(set.threshold() > 0 && set.threshold() <= 1)) {
    problems.Add(at + ".threshold", absl::StrCat(set.threshold()), "a threshold is above 0 and at most 1");
  }
  if (set.has_top() && set.top() < 1) {
    problems.Add(at + ".top", absl::StrCat(set.top()), "at least 1 head");
  }
  if (set.has_top_share() && !(set.top_share() > 0 && set.top_share() <= 1)) {
    problems.Add(at + ".top_share", absl::StrCat(set.top_share()), "a share is above 0 and at most 1");
  }
}

// One row of slash_heads.
struct FoundHead {
  NamedHead head;
  double score = 0;
  bool dominant = false;
};

absl::StatusOr<std::vector<FoundHead>> ReadSlashHeads(const std::string& experiment, const Context& context,
                                                      const std::string& model, int64_t seed) {
  ROPELAB_ASSIGN_OR_RETURN(const v1::TableSlice* const table,
                           EarlierTable(context, experiment, "slash_heads"));
  ROPELAB_ASSIGN_OR_RETURN(const v1::Column* const models, ColumnOf(*table, "model"));
  ROPELAB_ASSIGN_OR_RETURN(const v1::Column* const seeds, ColumnOf(*table, "seed"));
  ROPELAB_ASSIGN_OR_RETURN(const v1::Column* const layers, ColumnOf(*table, "layer"));
  ROPELAB_ASSIGN_OR_RETURN(const v1::Column* const heads, ColumnOf(*table, "head"));
  ROPELAB_ASSIGN_OR_RETURN(const v1::Column* const offsets, ColumnOf(*table, "best_offset"));
  ROPELAB_ASSIGN_OR_RETURN(const v1::Column* const scores, ColumnOf(*table, "score"));
  ROPELAB_ASSIGN_OR_RETURN(const v1::Column* const dominant, ColumnOf(*table, "dominant"));
  std::vector<FoundHead> found;
  for (int row = 0; row < static_cast<int>(table->rows()); ++row) {
    if (models->texts(row) != model || seeds->integers(row) != seed || IsNull(*offsets, row)) {
      continue;
    }
    found.push_back({{layers->integers(row), heads->integers(row), offsets->integers(row)},
                     scores->reals(row),
                     dominant->integers(row) != 0});
  }
  return found;
}

absl::StatusOr<std::vector<NamedHead>> SlashDominantOf(const v1::SlashDominantHeads& set,
                                                       const Context& context, const std::string& model,
                                                       int64_t seed) {
  absl::StatusOr<std::vector<FoundHead>> found = ReadSlashHeads(set.experiment(), context, model, seed);
  if (!found.ok()) {
    return found.status();
  }
  std::erase_if(*found, [&](const FoundHead& head) {
    return set.has_threshold() ? head.score < set.threshold() : !head.dominant;
  });
  const auto by_place = [](const FoundHead& a, const FoundHead& b) {
    return std::tie(a.head.layer, a.head.head) < std::tie(b.head.layer, b.head.head);
  };
  std::sort(found->begin(), found->end(), by_place);
  std::stable_sort(found->begin(), found->end(),
                   [](const FoundHead& a, const FoundHead& b) { return a.score > b.score; });
  size_t kept = found->size();
  if (set.has_top()) {
    kept = std::min(kept, static_cast<size_t>(set.top()));
  } else if (set.has_top_share()) {
    kept = static_cast<size_t>(ShareOf(set.top_share(), static_cast<int64_t>(kept)));
  }
  found->resize(kept);
  std::sort(found->begin(), found->end(), by_place);
  std::vector<NamedHead> heads;
  for (const FoundHead& head : *found) {
    heads.push_back(head.head);
  }
  return heads;
}

}  // namespace

void ResolveHeadSet(const v1::HeadSet& set, const std::string& path, const Facts& facts, Problems& problems) {
  switch (set.set_case()) {
    case v1::HeadSet::kList:
      ResolveList(set.list(), path, facts, problems);
      return;
    case v1::HeadSet::kSlashDominant:
      ResolveSlashDominant(set.slash_dominant(), path, problems);
      return;
    case v1::HeadSet::kRetrieval:
      ResolveRetrievalHeads(set.retrieval(), path + ".retrieval", problems);
      return;
    case v1::HeadSet::kImported:
      ResolveImportedHeads(set.imported(), path + ".imported", facts, problems);
      return;
    case v1::HeadSet::SET_NOT_SET:
      problems.Add(path, "",
                   "name the heads: list { head { layer head } }, slash_dominant { experiment }, retrieval { "
                   "experiment } or imported { name }");
      return;
  }
}

absl::StatusOr<std::vector<NamedHead>> HeadsOf(const v1::HeadSet& set, const Context& context,
                                               const std::string& model, int64_t seed) {
  if (set.has_slash_dominant()) {
    return SlashDominantOf(set.slash_dominant(), context, model, seed);
  }
  if (set.has_retrieval()) {
    return RetrievalHeadsOf(set.retrieval(), context, model, seed);
  }
  if (set.has_imported()) {
    return ImportedHeadsOf(set.imported(), context);
  }
  if (!set.has_list()) {
    return absl::InternalError("the set of heads was not resolved before it was planned");
  }
  std::vector<NamedHead> heads;
  for (const v1::Head& head : set.list().head()) {
    heads.push_back({head.layer(), head.head(),
                     head.has_offset() ? std::optional<int64_t>(head.offset()) : std::nullopt});
  }
  std::sort(heads.begin(), heads.end(), [](const NamedHead& a, const NamedHead& b) {
    return std::tie(a.layer, a.head) < std::tie(b.layer, b.head);
  });
  return heads;
}

void ListHeads(const std::vector<NamedHead>& heads, v1::HeadSet& set) {
  v1::HeadList& list = *set.mutable_list();
  list.clear_head();
  for (const NamedHead& head : heads) {
    v1::Head& named = *list.add_head();
    named.set_layer(static_cast<int32_t>(head.layer));
    named.set_head(static_cast<int32_t>(head.head));
  }
}

absl::StatusOr<std::vector<NamedHead>> DetectedHeadsOf(const v1::HeadSet& set, const Context& context,
                                                       const std::string& model, int64_t seed) {
  ROPELAB_ASSIGN_OR_RETURN(std::vector<NamedHead> heads, HeadsOf(set, context, model, seed));
  v1::HeadSet detected;
  if (set.has_slash_dominant()) {
    detected.mutable_slash_dominant()->set_experiment(set.slash_dominant().experiment());
  } else if (set.has_retrieval()) {
    detected.mutable_retrieval()->set_experiment(set.retrieval().experiment());
    detected.mutable_retrieval()->set_metric(set.retrieval().metric());
  } else if (set.has_imported()) {
    detected.mutable_imported()->set_name(set.imported().name());
    detected.mutable_imported()->set_threshold(kDefaultRetrievalThreshold);
  } else {
    return heads;
  }
  ROPELAB_ASSIGN_OR_RETURN(const std::vector<NamedHead> others, HeadsOf(detected, context, model, seed));
  heads.insert(heads.end(), others.begin(), others.end());
  const auto place = [](const NamedHead& head) { return std::tie(head.layer, head.head); };
  std::sort(heads.begin(), heads.end(),
            [&](const NamedHead& a, const NamedHead& b) { return place(a) < place(b); });
  heads.erase(std::unique(heads.begin(), heads.end(),
                          [&](const NamedHead& a, const NamedHead& b) { return place(a) == place(b); }),
              heads.end());
  return heads;
}

}  // namespace ropelab::experiments
