// Sets of heads that a spec names: listed, found by an earlier experiment of the same study, or taken from
// registered scores.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/experiments/experiment.h"

namespace ropelab::experiments {

// Adds what is wrong with a set by itself; paths start with `path`. A list must lie within every model, each
// head once; of a slash_dominant or retrieval set an experiment's name and at most one of threshold, top and
// top_share; an imported set a registered name, within every model, and at least one head. Whether an
// experiment exists is CheckReferences' matter.
void ResolveHeadSet(const v1::HeadSet& set, const std::string& path, const Facts& facts, Problems& problems);

// Writes what head sets leave out, wherever they stand in `spec`: the metric of a retrieval set (ARGMAX), the
// threshold of an imported one that is cut by nothing (0.1), and its name as "name@sha256" where it is found.
// Before the kind's own rules.
void WriteHeadSetDefaults(v1::ExperimentSpec& spec, const Facts& facts);

struct NamedHead {
  int64_t layer = 0, head = 0;
  std::optional<int64_t> offset;  // of its slash
  bool operator==(const NamedHead&) const = default;
};
// The heads of a resolved set for one model (its label in the resolved spec) and seed, ascending by layer and
// head. Of slash_dominant: the heads that the experiment's table slash_heads says are dominant, each at its
// best offset; with a threshold, those whose best score reaches it; of the dominant ones the `top` best, or
// ⌈top_share · n⌉ of them, by score, of a tie the first by layer and head. Of retrieval: the heads that the
// experiment's table head_scores labels under the metric, all samples pooled; with a threshold, those that
// RetrievalLabels gives at it; of the labelled ones the `top` best or ⌈top_share · n⌉ of them by RankedHeads
// (retrieval_labels.h). Of imported: the heads whose mean score reaches the threshold, or the `top` best of
// all, or ⌈top_share · n⌉ of those at 0.1, by mean, of a tie the first by layer and head; the same for every
// model and seed. Empty where none was found. INTERNAL: the earlier experiment or its table is not in the
// context. FAILED_PRECONDITION: the imported scores are not registered any more.
absl::StatusOr<std::vector<NamedHead>> HeadsOf(const v1::HeadSet& set, const Context& context,
                                               const std::string& model, int64_t seed);

// Makes `set` a list of these, without offsets: as edits name their heads in a task.
void ListHeads(const std::vector<NamedHead>& heads, v1::HeadSet& set);

// The heads that controls of a set must not touch: the set's own and, of a slash_dominant or retrieval set,
// every head that its experiment found (under that metric), of an imported one every head at 0.1, whatever
// threshold, top or top_share leave of them. Ascending, each once; errors: HeadsOf's.
absl::StatusOr<std::vector<NamedHead>> DetectedHeadsOf(const v1::HeadSet& set, const Context& context,
                                                       const std::string& model, int64_t seed);

// Names of the experiments that a spec's head sets refer to, each once, in the order of their first mention.
std::vector<std::string> ReferredExperiments(const v1::ExperimentSpec& spec);

// The tables of an earlier experiment that head sets read.
inline constexpr const char* kHeadSetTables[] = {"slash_heads", "head_scores"};

// What is wrong with the references of experiment `index` of a study (or of a lone experiment, where any
// reference is wrong): no such name, its own name, a ring, a kind that finds no such heads, a model or seed
// that the other does not run, a metric that it does not measure. All of `resolved` are resolved; paths start
// at the experiment.
void CheckReferences(const std::vector<v1::ExperimentSpec>& resolved, size_t index, Problems& problems);

}  // namespace ropelab::experiments
