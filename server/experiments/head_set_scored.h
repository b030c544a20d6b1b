// Sets of heads that are made of scores: those of a retrieval detection, and registered ones. For the files
// head_set*.cc; what the sets mean stands in head_set.h.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/experiments/head_set.h"

namespace ropelab::experiments {

void ResolveRetrievalHeads(const v1::RetrievalHeads& set, const std::string& path, Problems& problems);
void ResolveImportedHeads(const v1::ImportedHeads& set, const std::string& path, const Facts& facts,
                          Problems& problems);

absl::StatusOr<std::vector<NamedHead>> RetrievalHeadsOf(const v1::RetrievalHeads& set, const Context& context,
                                                        const std::string& model, int64_t seed);
absl::StatusOr<std::vector<NamedHead>> ImportedHeadsOf(const v1::ImportedHeads& set, const Context& context);

// The number that either set is cut by.
template <typename Set>
void CheckChoice(const Set& set, const std::string& path, Problems& problems) {
  if (set.choice_case() == Set::kThreshold && !(set.threshold() > 0 && set.threshold() <= 1)) {
    problems.Add(path + ".threshold", absl::StrCat(set.threshold()), "a threshold is above 0 and at most 1");
  }
  if (set.choice_case() == Set::kTop && set.top() < 1) {
    problems.Add(path + ".top", absl::StrCat(set.top()), "at least 1 head");
  }
  if (set.choice_case() == Set::kTopShare && !(set.top_share() > 0 && set.top_share() <= 1)) {
    problems.Add(path + ".top_share", absl::StrCat(set.top_share()), "a share is above 0 and at most 1");
  }
}

}  // namespace ropelab::experiments
