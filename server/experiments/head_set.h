// Sets of heads that a spec names: listed, or found by an earlier experiment of the same study.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/experiments/experiment.h"

namespace ropelab::experiments {

// Adds what is wrong with a set by itself; paths start with `path`. A list must lie within every model, each
// head once; of a slash_dominant set an experiment's name and at most one of threshold, top and top_share.
// Whether that experiment exists is CheckReferences' matter.
void ResolveHeadSet(const v1::HeadSet& set, const std::string& path, const Facts& facts, Problems& problems);

struct NamedHead {
  int64_t layer = 0, head = 0;
  std::optional<int64_t> offset;  // of its slash
  bool operator==(const NamedHead&) const = default;
};
// The heads of a resolved set for one model (its label in the resolved spec) and seed, ascending by layer and
// head. Of slash_dominant: the heads that the experiment's table slash_heads says are dominant, each at its
// best offset; with a threshold, those whose best score reaches it; of the dominant ones the `top` best, or
// ⌈top_share · n⌉ of them, by score, of a tie the first by layer and head. Empty where none was found.
// INTERNAL: the earlier experiment or its table is not in the context.
absl::StatusOr<std::vector<NamedHead>> HeadsOf(const v1::HeadSet& set, const Context& context,
                                               const std::string& model, int64_t seed);

// The heads that controls of a set must not touch: the set's own and, of a slash_dominant set, every head
// that its experiment says is dominant, whatever threshold, top or top_share leave of them. Ascending, each
// once; errors: HeadsOf's.
absl::StatusOr<std::vector<NamedHead>> DetectedHeadsOf(const v1::HeadSet& set, const Context& context,
                                                       const std::string& model, int64_t seed);

// Names of the experiments that a spec's head sets refer to, each once, in the order of their first mention.
std::vector<std::string> ReferredExperiments(const v1::ExperimentSpec& spec);

// The tables of an earlier experiment that head sets read.
inline constexpr const char* kHeadSetTables[] = {"slash_heads", "head_scores"};

// What is wrong with the references of experiment `index` of a study (or of a lone experiment, where any
// reference is wrong): no such name, its own name, a ring, a kind that finds no such heads, a model or seed
// that the other does not run. All of `resolved` are resolved; paths start at the experiment.
void CheckReferences(const std::vector<v1::ExperimentSpec>& resolved, size_t index, Problems& problems);

}  // namespace ropelab::experiments
