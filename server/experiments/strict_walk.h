// What protobuf lets pass and a spec may not hold, found by reflection, so that it holds for every message of
// the language without a line for any of them.
#pragma once

#include <string>

#include "google/protobuf/message.h"
#include "server/experiments/experiment.h"

namespace ropelab::experiments {

inline constexpr size_t kLongestString = 4096;           // bytes, of any string field
inline constexpr size_t kLargestSpec = 2 * 1024 * 1024;  // bytes of a submission, encoded

// Adds a problem for every unknown field (by number: "slash_detection.#99"), enum number without a name,
// UNSPECIFIED that was typed, number that is not finite, and string that holds a NUL, is not UTF-8 or is
// longer than kLongestString; in the message and in all below it. Paths start with `prefix` ("" or
// "slash_detection"); list elements are named by index. The field `except` of the top message is not
// descended into.
void StrictWalk(const google::protobuf::Message& message, const std::string& prefix,
                const std::string& except, Problems& problems);

}  // namespace ropelab::experiments
