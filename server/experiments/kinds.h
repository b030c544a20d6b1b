// The one table of experiment kinds, and what holds for a spec of any kind.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/experiments/experiment.h"

namespace ropelab::experiments {

struct Kind {
  std::string_view field;        // of ExperimentSpec: "slash_detection"
  const Experiment* experiment;  // nullptr: the language has it, this version does not run it
  bool needs_model;
  bool names_models = false;  // its own part does, instead of model and models: checkpoint_sweep
  bool names_dtypes = false;  // its own part does, instead of dtype: precision_test
};
const std::vector<Kind>& Kinds();
const Kind* FindKind(std::string_view field);

struct ResolvedExperiment {
  v1::ExperimentSpec typed;     // with the study's defaults applied
  v1::ExperimentSpec resolved;  // every default written out; its canonical hash is the spec hash
  std::string spec_hash;
  std::string kind;
  std::vector<std::string> warnings;
  v1::Estimate estimate;
};
struct ResolvedSubmission {
  bool is_study = false;
  std::string study_name;
  std::string submission_hash;  // canonical hash of what was typed
  std::vector<ResolvedExperiment> experiments;
};
// Checks everything that can be checked before anything runs: unknown fields (recursively, also in binary),
// unknown and UNSPECIFIED enum numbers, numbers that are not finite, sizes, kinds that are not built yet,
// model names (with those that are known), and then the kind's own rules. All problems are reported at once,
// in field order.
ResolvedSubmission ResolveSubmission(const v1::Submission& submission, const Catalogue& catalogue,
                                     Problems& problems);

}  // namespace ropelab::experiments
