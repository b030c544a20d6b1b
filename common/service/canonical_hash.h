// A hash of what a message means, not of how it is encoded: protobuf bytes are not canonical.
#pragma once

#include <string>

#include "google/protobuf/message.h"

namespace ropelab {

// SHA-256, hex, over a walk of the fields that are present, by ascending field number: number, type tag, then
// the value (integers as 8 bytes little-endian, doubles as their bits with -0 as 0, strings and messages
// length-prefixed, repeated fields with their count). A field without presence that holds its default counts
// as absent. Unknown fields must be gone before.
std::string CanonicalHash(const google::protobuf::Message& message);

}  // namespace ropelab
