// Numbers and times as a person reads them. Pure functions.
#pragma once

#include <cstdint>
#include <string>

namespace ropelab::client {

std::string HumanBytes(int64_t bytes);     // "1.5 GiB"
std::string HumanSeconds(double seconds);  // "0.4s", "12s", "3m 05s", "2h 10m", "3d 4h"
std::string HumanCount(int64_t count);     // "12.3M", for parameters
// "12s ago"; "-" for 0 (never).
std::string HumanAgo(int64_t now_microseconds, int64_t then_microseconds);
// "2026-01-31 12:00:00 UTC"; "-" for 0.
std::string HumanStamp(int64_t microseconds);
// "1 row", "2 rows".
std::string Counted(int64_t count, const std::string& noun);

// Text from elsewhere may hold escape sequences: control characters become spaces, so that one value stays on
// its line and cannot drive the terminal. PrintableLines keeps line ends.
std::string Printable(const std::string& text);
std::string PrintableLines(const std::string& text);

// Code points of UTF-8 text; and at most `width` of them, the last an ellipsis when some were cut.
int64_t DisplayWidth(const std::string& text);
std::string Shortened(const std::string& text, int64_t width);

}  // namespace ropelab::client
