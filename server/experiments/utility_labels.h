// Which heads a utility test labels: the heads of its set, and those that each threshold gives under each
// detector.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/experiments/head_set.h"
#include "server/experiments/utility_statistics.h"
#include "server/statistics/defined.h"

namespace ropelab::experiments {

struct Labelling {
  std::string detector;             // a metric's name, or "list", "slash_dominant", "imported"
  std::optional<double> threshold;  // empty: the heads were not chosen by one
  v1::HeadSet heads;                // for HeadsOf
};
// Of a resolved test, ascending by detector and threshold, each pair once: the set as the spec names it and,
// of a set that comes from scores, at each threshold. A retrieval set's thresholds (its own or its
// detection's among them) are taken under its metric, and under ARGMAX and MASS where the detection measured
// them. Errors: INTERNAL where the earlier experiment is not in the context.
absl::StatusOr<std::vector<Labelling>> LabellingsOf(const v1::UtilityTest& test, const Context& context);

// The detectors of these labellings, each once, ascending.
std::vector<std::string> DetectorsOf(const std::vector<Labelling>& labellings);

// Score of every head of a model under a detector of the test's set: the metric's mean over all samples, the
// best slash score, or the mean of published scores (heads without one, or outside the model, are left out).
// Undefined for a listed set. `model`: its label in the resolved spec.
absl::StatusOr<statistics::Defined<HeadScoreMap>> HeadScoresOf(const v1::UtilityTest& test,
                                                               const std::string& detector,
                                                               const Context& context,
                                                               const ModelFacts& facts,
                                                               const std::string& model, int64_t seed);

}  // namespace ropelab::experiments
