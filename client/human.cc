#include "client/human.h"

#include <algorithm>
#include <cmath>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace ropelab::client {
namespace {

bool StartsCodePoint(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
}

std::string WithoutControls(std::string text, bool keep_line_ends) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    // C1 controls are C2 80 .. C2 9F in UTF-8.
    const bool c1 = byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (c1) {
      text[i] = ' ';
      text[i + 1] = ' ';
    } else if ((byte < 0x20 && !(keep_line_ends && byte == '\n')) || byte == 0x7F) {
      text[i] = ' ';
    }
  }
  return text;
}

}  // namespace

std::string HumanBytes(int64_t bytes) {
  if (bytes < 1024) {
    return absl::StrCat(bytes, " B");
  }
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.*f %s", value < 10 ? 1 : 0, value, kUnits[unit]);
}

std::string HumanSeconds(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) {
    return "?";
  }
  if (seconds < 9.95) {
    return absl::StrFormat("%.1fs", seconds);
  }
  const int64_t whole = std::llround(std::min(seconds, 1e15));
  if (whole < 60) {
    return absl::StrCat(whole, "s");
  }
  if (whole < 3600) {
    return absl::StrFormat("%dm %02ds", whole / 60, whole % 60);
  }
  if (whole < 86400) {
    return absl::StrFormat("%dh %02dm", whole / 3600, whole % 3600 / 60);
  }
  return absl::StrFormat("%dd %dh", whole / 86400, whole % 86400 / 3600);
}

std::string HumanCount(int64_t count) {
  static constexpr const char* kUnits[] = {"", "K", "M", "B", "T"};
  if (count < 1000) {
    return absl::StrCat(count);
  }
  double value = static_cast<double>(count);
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  return absl::StrFormat("%.*f%s", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value, kUnits[unit]);
}

std::string HumanAgo(int64_t now_microseconds, int64_t then_microseconds) {
  if (then_microseconds == 0) {
    return "-";
  }
  // The server's clock may be a little ahead of ours.
  const int64_t seconds = std::max<int64_t>(0, (now_microseconds - then_microseconds) / 1000000);
  if (seconds < 10) {
    return seconds == 0 ? "just now" : absl::StrCat(seconds, "s ago");
  }
  return absl::StrCat(HumanSeconds(static_cast<double>(seconds)), " ago");
}

std::string HumanStamp(int64_t microseconds) {
  if (microseconds == 0) {
    return "-";
  }
  const std::time_t seconds = microseconds / 1000000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[40];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text;
}

std::string Counted(int64_t count, const std::string& noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

std::string Printable(const std::string& text) {
  return WithoutControls(text, false);
}
std::string PrintableLines(const std::string& text) {
  return WithoutControls(text, true);
}

int64_t DisplayWidth(const std::string& text) {
  return std::count_if(text.begin(), text.end(), StartsCodePoint);
}

std::string Shortened(const std::string& text, int64_t width) {
  if (DisplayWidth(text) <= width || width < 1) {
    return text;
  }
  int64_t points = 0;
  size_t end = 0;
  while (end < text.size() && (!StartsCodePoint(text[end]) || ++points < width)) {
    ++end;
  }
  return absl::StrCat(text.substr(0, end), "…");
}

}  // namespace ropelab::client
