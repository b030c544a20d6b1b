#include "worker/formats/tokenizer/split_pattern_write.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace ropelab::formats {
namespace {

using Kind = PatternNode::Kind;
using Greed = PatternNode::Greed;

void WriteSet(const std::vector<uint8_t>& symbols, std::string& out) {
  if (symbols.empty()) {
    out += "(?!)";  // no character is in the set
    return;
  }
  if (symbols.size() == 1) {
    absl::StrAppendFormat(&out, "\\x%02x", symbols.front());
    return;
  }
  out += '[';
  for (size_t i = 0; i < symbols.size();) {
    size_t last = i;
    while (last + 1 < symbols.size() && symbols[last + 1] == symbols[last] + 1) ++last;
    absl::StrAppendFormat(&out, "\\x%02x", symbols[i]);
    if (last > i) absl::StrAppendFormat(&out, "-\\x%02x", symbols[last]);
    i = last + 1;
  }
  out += ']';
}

void Write(const PatternNode& node, const ClassAlphabet& alphabet, std::string& out) {
  const auto group = [&](std::string_view open) {
    out += open;
    Write(node.children.front(), alphabet, out);
    out += ')';
  };
  switch (node.kind) {
    case Kind::kSet:
      return WriteSet(alphabet.SymbolsOf(node.set), out);
    case Kind::kSequence:
      for (const PatternNode& child : node.children) Write(child, alphabet, out);
      return;
    case Kind::kChoice:
      out += "(?:";
      for (size_t i = 0; i < node.children.size(); ++i) {
        if (i > 0) out += '|';
        Write(node.children[i], alphabet, out);
      }
      out += ')';
      return;
    case Kind::kRepeat:
      if (node.children.front().kind == Kind::kSet) {
        Write(node.children.front(), alphabet, out);
      } else {
        group("(?:");
      }
      if (node.most == kNoUpperBound) {
        absl::StrAppend(&out, "{", node.least, ",}");
      } else {
        absl::StrAppend(&out, "{", node.least, ",", node.most, "}");
      }
      if (node.greed == Greed::kLazy) out += '?';
      if (node.greed == Greed::kPossessive) out += '+';
      return;
    case Kind::kLookahead:
      return group("(?=");
    case Kind::kNotAhead:
      return group("(?!");
    case Kind::kTextBegin:
      out += "\\A";
      return;
    case Kind::kTextEnd:
      out += "\\z";
      return;
  }
}

}  // namespace

std::string WriteSymbolPattern(const PatternTree& tree, const ClassAlphabet& alphabet) {
  std::string out;
  Write(tree.root, alphabet, out);
  return out;
}

}  // namespace ropelab::formats
