// Moves an experiment over the parts that take long: plans its next stage, or reduces it. Runs on a pool
// thread against the store alone; every step is idempotent, so that whatever a kill leaves half done is done
// again from what the rows say.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock.h"
#include "ropelab/v1/measurement.pb.h"
#include "ropelab/v1/spec.pb.h"
#include "server/api/earlier_results.h"
#include "server/experiments/experiment.h"
#include "server/store/store.h"

namespace ropelab::api {

struct AdvanceInput {
  int64_t experiment = 0;
  std::string kind, spec_hash, numerics_class;
  std::shared_ptr<const v1::ExperimentSpec> spec;  // resolved
  std::vector<experiments::ModelFacts> models;     // with weights hashes
  std::vector<Source> sources;                     // experiments that the spec takes heads from; all done
};

struct Advanced {
  enum class Kind {
    kStageReady,  // stage `stage` is planned and its tasks are linked
    kDone,        // reduced, results visible, state done
    kAbandoned,   // the experiment became final meanwhile (cancelled), or the server stops
  };
  Kind kind = Kind::kAbandoned;
  int64_t stage = 0, tasks = 0;
  std::string result_digest;
  double reduce_seconds = 0;
};

struct AdvanceHooks {
  std::function<bool()> stopping;            // checked between steps
  std::function<void(const char*)> entered;  // "planning", "reducing"
};

// A status that is not OK is final: the experiment fails with its message. A full disk is waited for, not an
// error.
absl::StatusOr<Advanced> AdvanceExperiment(store::Store* store, const Clock& clock, const AdvanceInput& input,
                                           const AdvanceHooks& hooks);

// The measurement's kind as the field is named: "slash_profile"; empty for none.
std::string KindOf(const v1::Measurement& measurement);

// Whether a write that failed thus may succeed later.
bool IsStorePaused(const absl::Status& status);

}  // namespace ropelab::api
