// The ids that people see: "e12" is an experiment, "s3" a study.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ropelab::api {

struct PublicId {
  bool is_study = false;
  int64_t number = 0;
};

std::string ExperimentId(int64_t number);
std::string StudyId(int64_t number);
// INVALID_ARGUMENT for what has neither form.
absl::StatusOr<PublicId> ParseId(const std::string& id);
// NOT_FOUND: names the id and says how to see those that exist.
absl::Status UnknownId(const std::string& id);

}  // namespace ropelab::api
