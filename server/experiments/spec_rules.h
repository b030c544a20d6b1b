// What holds for a spec of any kind: its name, models, dtype, priority, seeds, numerics class and tags.
#pragma once

#include <string>
#include <vector>

#include "server/experiments/kinds.h"

namespace ropelab::experiments {

inline constexpr uint64_t kDefaultSeed = 42;

// The field of ExperimentSpec that says the kind; empty when none is set.
std::string KindOf(const v1::ExperimentSpec& spec);
// "slash_detection, rope_geometry, inspection": what this version runs.
std::string BuiltKinds();

// Writes the defaults of these fields into `spec` and adds what is wrong. `model` becomes the one entry of
// `models`, so that both spellings resolve alike; the checkpoints of a checkpoint_sweep become all of
// `models`, and each is written as it stands there. `kind` is null where none is named. Returns the models
// that were found, in the spec's order: fewer than named when one is refused.
std::vector<ModelFacts> ResolveCommon(v1::ExperimentSpec& spec, const Kind* kind,
                                      const std::vector<ModelFacts>& known, Problems& problems);

}  // namespace ropelab::experiments
