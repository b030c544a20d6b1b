#include "common/nearest_name.h"

#include <algorithm>

namespace ropelab {
namespace {

constexpr size_t kFarthest = 2;
constexpr size_t kLongestUnknown = 200;  // the time grows with both lengths

// Levenshtein's distance.
size_t Distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t exchanged = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({exchanged, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string NearestName(const std::string& unknown, const std::vector<std::string>& names) {
  std::string nearest;
  if (unknown.size() > kLongestUnknown) {
    return nearest;
  }
  size_t least = std::min(kFarthest + 1, unknown.size());
  for (const std::string& name : names) {
    if (const size_t distance = Distance(name, unknown); distance < least) {
      least = distance;
      nearest = name;
    }
  }
  return nearest;
}

}  // namespace ropelab
