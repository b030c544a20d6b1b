// Problems of one spec in the order of its fields, one per field.
#pragma once

#include <string>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "ropelab/v1/experiment_service.pb.h"

namespace ropelab::experiments {

// Sorts by field numbers along the path (and by index within a list), then drops all but the first problem of
// each path: what the strict walk says of a value comes before what a rule makes of it. Paths start at a
// message of type `root`.
std::vector<v1::FieldProblem> InFieldOrder(const std::vector<v1::FieldProblem>& problems,
                                           const google::protobuf::Descriptor* root);

// "slash_detection" of "slash_detection.offsets.last", "seeds" of "seeds[1]".
std::string TopField(const std::string& path);

}  // namespace ropelab::experiments
