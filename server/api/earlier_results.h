// What experiments of a study take from each other: the result tables of those that are done.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/experiments/experiment.h"
#include "server/store/store.h"

namespace ropelab::api {

// An experiment that another one's spec refers to.
struct Source {
  std::string name;  // in their study
  int64_t experiment = 0;
};

// The tables of each that head sets read, whole, as far as it has them.
absl::StatusOr<std::vector<experiments::EarlierExperiment>> ReadEarlier(store::Store& store,
                                                                        const std::vector<Source>& sources);

}  // namespace ropelab::api
