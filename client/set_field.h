// `--set path=value`: changes one field of a parsed spec.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace ropelab::client {

// `assignment` is "path=value". The path goes through message fields by name, separated by dots; an element
// of a list is its index from 0, or its `name` where elements have one
// ("experiments.detect.slash_detection.threshold=0.2"; the longest name that fits counts, so names may hold
// dots). The field's type says how the value is read; a list takes values separated by commas, which replace
// it (nothing after = empties it). `model` takes the place of `models`, and `models` of `model`. Messages on
// the way are made when absent, but not where that would replace another choice that the spec made. Errors:
// INVALID_ARGUMENT naming the part that is wrong and what is there; `message` is then unchanged.
absl::Status SetField(const std::string& assignment, google::protobuf::Message* message);

}  // namespace ropelab::client
