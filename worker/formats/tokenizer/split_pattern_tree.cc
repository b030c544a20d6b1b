#include "worker/formats/tokenizer/split_pattern_tree.h"

#include <algorithm>

namespace ropelab::formats {
namespace {

using Kind = PatternNode::Kind;

}  // namespace

size_t LeastLength(const PatternNode& node) {
  switch (node.kind) {
    case Kind::kSet:
      return 1;
    case Kind::kSequence: {
      size_t sum = 0;
      for (const PatternNode& child : node.children) sum += LeastLength(child);
      return sum;
    }
    case Kind::kChoice: {
      size_t least = SIZE_MAX;
      for (const PatternNode& child : node.children) least = std::min(least, LeastLength(child));
      return least;
    }
    case Kind::kRepeat:
      return node.least == 0 ? 0 : LeastLength(node.children.front());  // enough: is it zero?
    default:
      return 0;
  }
}

size_t MostLength(const PatternNode& node) {
  size_t most = node.kind == Kind::kSet ? 1 : 0;
  for (const PatternNode& child : node.children) {
    const size_t length = MostLength(child);
    if (node.kind == Kind::kChoice) {
      most = std::max(most, length);
    } else {
      most = length > SIZE_MAX - most ? SIZE_MAX : most + length;
    }
  }
  if (node.kind != Kind::kRepeat || most == 0 || node.most == 0) {
    return node.kind == Kind::kRepeat ? 0 : most;
  }
  return node.most == kNoUpperBound || most > SIZE_MAX / node.most ? SIZE_MAX : most * node.most;
}

}  // namespace ropelab::formats
