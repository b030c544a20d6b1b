#include "server/api/address.h"

#include <arpa/inet.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace ropelab::api {

bool Address::IsLoopback() const {
  in_addr four = {};
  in6_addr six = {};
  if (inet_pton(AF_INET, host.c_str(), &four) == 1) {
    return (ntohl(four.s_addr) >> 24) == 127;
  }
  if (inet_pton(AF_INET6, host.c_str(), &six) == 1) {
    return IN6_IS_ADDR_LOOPBACK(&six);
  }
  return host == "localhost";
}

std::string Address::Text() const {
  return absl::StrContains(host, ':') ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
}

absl::StatusOr<Address> ParseAddress(const std::string& option, const std::string& text) {
  Address address;
  const size_t colon = text.rfind(':');
  if (colon != std::string::npos) {
    address.host = text.substr(0, colon);
    if (address.host.size() > 2 && address.host.front() == '[' && address.host.back() == ']') {
      address.host = address.host.substr(1, address.host.size() - 2);
    } else if (absl::StrContains(address.host, ':')) {
      address.host.clear();  // an IPv6 address without brackets could end anywhere
    }
  }
  if (address.host.empty() || !absl::SimpleAtoi(text.substr(colon + 1), &address.port) || address.port < 0 ||
      address.port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat(option, " \"", text,
                     "\": HOST:PORT is needed, as in 127.0.0.1:7400 or [::1]:7400; port 0 takes a free one"));
  }
  return address;
}

}  // namespace ropelab::api
