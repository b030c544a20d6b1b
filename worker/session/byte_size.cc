#include "worker/session/byte_size.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace ropelab::session {

absl::StatusOr<int64_t> ParseByteSize(const std::string& text) {
  constexpr std::string_view kPowers = "kmgt";
  constexpr double kMost = 0x1p62;
  double bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  std::string unit(end, text.data() + text.size());
  unit.erase(std::remove(unit.begin(), unit.end(), ' '), unit.end());
  std::transform(unit.begin(), unit.end(), unit.begin(), [](unsigned char c) { return std::tolower(c); });
  bool good = error == std::errc();
  if (!unit.empty() && unit != "b") {
    const size_t power = kPowers.find(unit[0]);
    const std::string_view rest = std::string_view(unit).substr(1);
    good = good && power != std::string_view::npos && (rest.empty() || rest == "b" || rest == "ib");
    if (good) bytes = std::ldexp(bytes, 10 * (static_cast<int>(power) + 1));
  }
  if (!good || !(bytes >= 1 && bytes <= kMost)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", text, "' is no size: give a positive number of bytes, with k, m, g or t for powers of 1024"));
  }
  return static_cast<int64_t>(bytes);
}

}  // namespace ropelab::session
