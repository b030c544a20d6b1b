// The address of a server as people type it.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace ropelab {

// HOST:PORT with a port from 1 to 65535, an IPv6 host in brackets; else INVALID_ARGUMENT with what is wrong
// and the remedy. `what` begins the message: "--server".
absl::Status CheckHostPort(const std::string& what, const std::string& text);

}  // namespace ropelab
