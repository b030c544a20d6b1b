// What is wrong with a spec in JSON, in words that say where.
#pragma once

#include <string>

#include "google/protobuf/descriptor.h"

namespace ropelab::client {

// For text that CheckJson passed and protobuf's parser refused, whose complaint names no line and no remedy:
// "3: slash_detection.threshold: "high": a number belongs there", with the line in front. Empty where every
// part fits.
std::string JsonProblem(const std::string& text, const google::protobuf::Descriptor& type);

}  // namespace ropelab::client
