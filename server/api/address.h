// HOST:PORT, as --listen and --metrics take it.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace ropelab::api {

struct Address {
  std::string host;  // without the brackets of an IPv6 address
  int port = 0;      // 0: any free one

  bool IsLoopback() const;  // localhost, 127.0.0.0/8 or ::1: nobody outside this host reaches it
  std::string Text() const;
};

// `option` is named in the error. "7400" alone and ":7400" are refused: which interface is meant must be
// said.
absl::StatusOr<Address> ParseAddress(const std::string& option, const std::string& text);

}  // namespace ropelab::api
