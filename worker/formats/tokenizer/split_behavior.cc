#include "worker/formats/tokenizer/split_behavior.h"

#include "common/status_macros.h"

namespace ropelab::formats {
namespace {

struct Stretch {
  TextRange range;
  bool delimiter = false;
};

// Matches and what lies between them, in order.
std::vector<Stretch> Stretches(const std::vector<TextRange>& matches, size_t size, size_t offset,
                               bool invert) {
  std::vector<Stretch> stretches;
  stretches.reserve(2 * matches.size() + 1);
  size_t done = 0;
  for (const TextRange& match : matches) {
    if (done < match.begin) stretches.push_back({{offset + done, offset + match.begin}, invert});
    stretches.push_back({{offset + match.begin, offset + match.end}, !invert});
    done = match.end;
  }
  if (done < size) stretches.push_back({{offset + done, offset + size}, invert});
  return stretches;
}

}  // namespace

absl::StatusOr<SplitBehavior> ReadSplitBehavior(JsonFields& fields) {
  ROPELAB_ASSIGN_OR_RETURN(const std::string name, fields.String("behavior"));
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  return fields.Error("behavior", Shown(name) +
                                      " is not known; known are Removed, Isolated, MergedWithPrevious, "
                                      "MergedWithNext and Contiguous");
}

void SplitAt(const std::vector<TextRange>& matches, size_t size, size_t offset, SplitBehavior behavior,
             bool invert, std::vector<TextRange>& parts) {
  const std::vector<Stretch> stretches = Stretches(matches, size, offset, invert);
  const size_t first = parts.size();
  const auto extend = [&](const TextRange& range) {
    if (parts.size() == first) {
      parts.push_back(range);
    } else {
      parts.back().end = range.end;
    }
  };
  for (size_t k = 0; k < stretches.size(); ++k) {
    const auto& [range, delimiter] = stretches[k];
    const bool after_delimiter = k > 0 && stretches[k - 1].delimiter;
    switch (behavior) {
      case SplitBehavior::kRemoved:
        if (!delimiter) parts.push_back(range);
        break;
      case SplitBehavior::kIsolated:
        parts.push_back(range);
        break;
      case SplitBehavior::kContiguous:
        if (delimiter == after_delimiter) {
          extend(range);
        } else {
          parts.push_back(range);
        }
        break;
      case SplitBehavior::kMergedWithPrevious:
        if (delimiter && !after_delimiter) {
          extend(range);
        } else {
          parts.push_back(range);
        }
        break;
      case SplitBehavior::kMergedWithNext:
        // A delimiter that is the last of its run begins the part that follows.
        if (after_delimiter && !delimiter) {
          extend(range);
        } else {
          parts.push_back(range);
        }
        break;
    }
  }
}

}  // namespace ropelab::formats
