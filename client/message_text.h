// What a person typed, before it travels.
#pragma once

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace ropelab::client {

// INVALID_ARGUMENT names the first text of the message that is not UTF-8: its receiver could not read the
// message, and could not say why.
absl::Status CheckTexts(const google::protobuf::Message& message);

}  // namespace ropelab::client
