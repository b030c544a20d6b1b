#include "common/host_port.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/printable.h"

namespace ropelab {
namespace {

constexpr char kPort[] = "7400";  // where a server listens unless it is told otherwise

// Empty: it is one.
std::string WhyNot(const std::string& text) {
  if (text.find_first_of(" \t\r\n") != std::string::npos) return "holds white space";
  if (const size_t scheme = text.find("//"); scheme != std::string::npos) {
    return absl::StrCat("is a URL: leave out \"", text.substr(0, scheme + 2), "\"");
  }
  const size_t colon = text.rfind(':');
  const bool bracketed = absl::StartsWith(text, "[");
  if (colon == std::string::npos || (bracketed && text.back() == ']')) {
    return text.empty() ? "is empty" : absl::StrCat("names no port: ", text, ":", kPort, ", perhaps");
  }
  const std::string host = text.substr(0, colon);
  if (host.empty()) return "names no host";
  if (!bracketed && host.find(':') != std::string::npos) {
    return absl::StrCat("is ambiguous: an IPv6 host stands in brackets, as in [::1]:", kPort);
  }
  if (bracketed && (host.size() < 3 || host.back() != ']')) return "has an unclosed bracket";
  int port = 0;
  const std::string digits = text.substr(colon + 1);
  if (digits.empty()) return absl::StrCat("names no port: ", host, ":", kPort, ", perhaps");
  return absl::SimpleAtoi(digits, &port) && port > 0 && port < 65536
             ? ""
             : absl::StrCat("has the port \"", digits, "\": 1 to 65535 are possible");
}

}  // namespace

absl::Status CheckHostPort(const std::string& what, const std::string& text) {
  const std::string why = WhyNot(text);
  if (why.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, " \"", Printable(text, 200), "\" ",
                                                 Printable(why, 400),
                                                 " (HOST:PORT is needed, as in 127.0.0.1:", kPort, ")"));
}

}  // namespace ropelab
