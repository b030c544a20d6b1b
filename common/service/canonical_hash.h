// A hash of what a message means, not of how it is encoded: protobuf bytes are not canonical.
#pragma once

#include <string>

#include "google/protobuf/message.h"

namespace ropelab {

// SHA-256, hex, over a walk: a message is the count of its present fields, then by ascending field number
// each field's number, one tag byte (1 integer, bool or enum; 2 real; 3 string or bytes; 4 message), its
// count if it is repeated, and its values. Integers, numbers, counts and lengths are 8 bytes little-endian,
// reals the bits of a double with -0 as 0, strings follow their length. A field without presence that holds
// its default counts as absent. Unknown fields must be gone before.
std::string CanonicalHash(const google::protobuf::Message& message);

}  // namespace ropelab
