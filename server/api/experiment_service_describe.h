// From rows, counts and live state to the v1::Experiment that clients see.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ropelab/v1/experiment_service.pb.h"
#include "server/api/ids.h"
#include "server/api/service_context.h"
#include "server/store/experiments.h"
#include "server/store/task_counts.h"

namespace ropelab::api {

bool IsFinalState(const std::string& state);  // done, failed, cancelled

// Pure. Progress counts tasks, running ones by their own share; the time left is the work left at the rate of
// what was measured (not reused) since the start, unless the coordinator knows better.
v1::Experiment DescribeExperiment(const store::ExperimentRow& row, const store::TaskCounts& counts,
                                  const LiveExperiment& live, int64_t now_us);

// In the order of `ids`, on one snapshot of the database.
absl::StatusOr<std::vector<v1::Experiment>> DescribeExperiments(const ServiceContext& context,
                                                                const std::vector<int64_t>& ids);

// The number of an experiment's id. INVALID_ARGUMENT for another form; a study's id is refused with its
// experiments' ids.
absl::StatusOr<int64_t> ExperimentNumber(store::Connection& db, const std::string& id);
// The row of an experiment's id, with the same errors and NOT_FOUND.
absl::StatusOr<store::ExperimentRow> FindExperiment(store::Connection& db, const std::string& id);
// The experiments of an id of either form, never none.
absl::StatusOr<std::vector<int64_t>> ExperimentsOfId(store::Connection& db, const std::string& id);

// The non-empty lines of a row's text column.
std::vector<std::string> Lines(const std::string& text);

}  // namespace ropelab::api
