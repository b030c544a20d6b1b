#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/formats/tokenizer/split_pattern_reader.h"
#include "worker/formats/tokenizer/split_pattern_tree.h"

namespace ropelab::formats {
namespace {

using Kind = PatternNode::Kind;
using Greed = PatternNode::Greed;

constexpr size_t kLongestPattern = 16384;
constexpr size_t kMostSets = 256;
constexpr int kDeepestGroup = 50;
constexpr uint32_t kMostRepeats = 1000;
constexpr size_t kFarthestLookahead = 1000;
// PCRE2 10.42's JIT overlooks matches of some of them, and finds others that are none.
constexpr char kNoAtomicGroups[] = "an atomic group, or a possessive repeat of a group, is not built";

class Parser {
 public:
  explicit Parser(std::string_view pattern) : reader_(pattern) {}

  absl::StatusOr<PatternTree> Parse() {
    ROPELAB_RETURN_IF_ERROR(reader_.CheckUtf8());
    // An option in the middle of a branch means different things to different engines; first of all it does
    // not.
    const bool ignore_case = reader_.Take("(?i)");
    ROPELAB_ASSIGN_OR_RETURN(tree_.root, ParseChoice(ignore_case, 0));
    if (!reader_.AtEnd()) return reader_.Refuse("a closing parenthesis without an opening one");
    return std::move(tree_);
  }

 private:
  absl::StatusOr<PatternNode> SetNode(CodePointSet set) {
    PatternNode node;
    node.kind = Kind::kSet;
    node.set = static_cast<size_t>(std::find(tree_.sets.begin(), tree_.sets.end(), set) - tree_.sets.begin());
    if (node.set == tree_.sets.size()) {
      if (node.set == kMostSets) return reader_.Refuse("the pattern names too many different characters");
      tree_.sets.push_back(std::move(set));
    }
    return node;
  }

  absl::StatusOr<PatternNode> ParseChoice(bool ignore_case, int depth) {
    if (depth > kDeepestGroup) return reader_.Refuse("groups are nested too deeply");
    PatternNode choice;
    choice.kind = Kind::kChoice;
    do {
      ROPELAB_ASSIGN_OR_RETURN(PatternNode branch, ParseSequence(ignore_case, depth));
      choice.children.push_back(std::move(branch));
    } while (reader_.Take("|"));
    if (choice.children.size() > 1) return choice;
    return std::move(choice.children.front());
  }

  absl::StatusOr<PatternNode> ParseSequence(bool ignore_case, int depth) {
    PatternNode sequence;
    char32_t previous = 0;  // the literal just before, lower case, where case is ignored
    while (!reader_.AtEnd() && reader_.Peek() != '|' && reader_.Peek() != ')') {
      const size_t begin = reader_.at();
      const char32_t here = ignore_case ? absl::ascii_tolower(static_cast<unsigned char>(reader_.Peek())) : 0;
      ROPELAB_ASSIGN_OR_RETURN(PatternNode atom, ParseAtom(ignore_case, depth));
      // Oniguruma lets one ligature or sharp s stand for two letters.
      if ((previous == 's' && (here == 's' || here == 't')) ||
          (previous == 'f' && (here == 'f' || here == 'i' || here == 'l'))) {
        return reader_.Refuse(begin, "ss, st, ff, fi and fl where case is ignored are not built");
      }
      previous = here;
      if (ignore_case && (here == 's' || here == 'f') && reader_.Peek() == '{') {
        return reader_.Refuse("a counted repeat of s or f where case is ignored is not built");
      }
      ROPELAB_ASSIGN_OR_RETURN(PatternNode item, ParseQuantifiers(std::move(atom), begin));
      sequence.children.push_back(std::move(item));
    }
    if (sequence.children.size() == 1) return std::move(sequence.children.front());
    return sequence;
  }

  absl::StatusOr<PatternNode> ParseAtom(bool ignore_case, int depth) {
    if (reader_.Take("(")) return ParseGroup(ignore_case, depth);
    if (reader_.Take("[")) return SetFrom(reader_.TakeBrackets(ignore_case));
    if (reader_.Take("\\A")) return Anchor(Kind::kTextBegin);
    if (reader_.Take("\\z")) return Anchor(Kind::kTextEnd);
    if (reader_.Take("\\")) return SetFrom(reader_.TakeEscape(ignore_case));
    if (reader_.Take(".")) return SetNode(CodePointSet({{0x0A, 0x0A}}).Complement());
    switch (reader_.Peek()) {
      case '*':
      case '+':
      case '?':
      case '{':
        return reader_.Refuse("nothing to repeat; write a backslash before the character itself");
      case '^':
      case '$':
        return reader_.Refuse("line anchors differ between the engines and are not built");
      case ']':
      case '}':
        return reader_.Refuse("a closing bracket or brace alone; write a backslash before it");
      default:
        return ParseLiteral(ignore_case);
    }
  }

  absl::StatusOr<PatternNode> ParseLiteral(bool ignore_case) {
    const size_t begin = reader_.at();
    const char32_t code_point = reader_.TakeCodePoint();
    return SetFrom(reader_.Literal(begin, code_point, ignore_case));
  }

  absl::StatusOr<PatternNode> SetFrom(absl::StatusOr<CodePointSet> set) {
    if (!set.ok()) return set.status();
    return SetNode(*std::move(set));
  }

  static PatternNode Anchor(Kind kind) {
    PatternNode node;
    node.kind = kind;
    return node;
  }

  // After an opening parenthesis. Groups that only count captures are plain ones: nothing can refer to them.
  absl::StatusOr<PatternNode> ParseGroup(bool ignore_case, int depth) {
    const size_t begin = reader_.at() - 1;
    PatternNode node;
    bool wrapped = true;
    if (reader_.Take("?>")) {
      return reader_.Refuse(begin, kNoAtomicGroups);
    } else if (reader_.Take("?=")) {
      node.kind = Kind::kLookahead;
    } else if (reader_.Take("?!")) {
      node.kind = Kind::kNotAhead;
    } else {
      wrapped = false;
      if (reader_.Take("?i:")) {
        ignore_case = true;
      } else if (reader_.Take("?-i:")) {
        ignore_case = false;
      } else if (!reader_.Take("?:") && reader_.Peek() == '?') {
        return reader_.Refuse(begin, "this kind of group is not built");
      }
    }
    ROPELAB_ASSIGN_OR_RETURN(PatternNode inner, ParseChoice(ignore_case, depth + 1));
    if (!reader_.Take(")")) return reader_.Refuse(begin, "the group has no closing parenthesis");
    if (!wrapped) return inner;
    // Tried at every character, a long look ahead would make the time quadratic.
    if (MostLength(inner) > kFarthestLookahead) {
      return reader_.Refuse(begin, absl::StrCat("a look-ahead over more than ", kFarthestLookahead,
                                                " characters is not built"));
    }
    node.children.push_back(std::move(inner));
    return node;
  }

  // The bounds of {n}, {n,}, {,m} or {n,m}, after the opening brace.
  absl::Status ParseInterval(PatternNode& repeat, size_t begin) {
    ROPELAB_ASSIGN_OR_RETURN(const std::optional<uint32_t> least, reader_.TakeNumber());
    const bool comma = reader_.Take(",");
    std::optional<uint32_t> most = least;
    if (comma) {
      ROPELAB_ASSIGN_OR_RETURN(most, reader_.TakeNumber());
    }
    if (!reader_.Take("}") || (!least && !most)) {
      return reader_.Refuse(begin, "a repeat is written {n}, {n,}, {,m} or {n,m}");
    }
    repeat.least = least.value_or(0);
    repeat.most = most.value_or(kNoUpperBound);
    if (repeat.least > repeat.most) return reader_.Refuse(begin, "the repeat's bounds are reversed");
    if (std::max(repeat.least, most.value_or(0)) > kMostRepeats) {
      return reader_.Refuse(begin, absl::StrCat("a repeat of over ", kMostRepeats, " is not built"));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<PatternNode> ParseQuantifiers(PatternNode atom, size_t begin) {
    const size_t place = reader_.at();
    PatternNode repeat;
    repeat.kind = Kind::kRepeat;
    repeat.most = kNoUpperBound;
    bool interval = false;
    if (reader_.Take("+")) {
      repeat.least = 1;
    } else if (reader_.Take("?")) {
      repeat.most = 1;
    } else if (reader_.Take("{")) {
      interval = true;
      ROPELAB_RETURN_IF_ERROR(ParseInterval(repeat, place));
    } else if (!reader_.Take("*")) {
      return atom;
    }
    if (atom.kind == Kind::kLookahead || atom.kind == Kind::kNotAhead || atom.kind == Kind::kTextBegin ||
        atom.kind == Kind::kTextEnd) {
      return reader_.Refuse(begin, "a repeated look-ahead or anchor is not built");
    }
    if (repeat.most > 1 && LeastLength(atom) == 0) {
      return reader_.Refuse(begin, "the engines differ in repeating what can be empty");
    }
    // To Oniguruma {n,m}+ is a repeat of the repeat, and {n}? an optional one.
    const bool again = interval && reader_.Take("+");
    if (!again && reader_.Take("+")) {
      if (atom.kind != Kind::kSet) return reader_.Refuse(begin, kNoAtomicGroups);
      repeat.greed = Greed::kPossessive;
    } else if (!again && reader_.Take("?")) {
      if (interval && repeat.least == repeat.most) return reader_.Refuse(place, "{n}? is not built");
      repeat.greed = Greed::kLazy;
    }
    repeat.children.push_back(std::move(atom));
    if (again) {
      if (repeat.least == 0)
        return reader_.Refuse(begin, "the engines differ in repeating what can be empty");
      PatternNode outer;
      outer.kind = Kind::kRepeat;
      outer.least = 1;
      outer.most = kNoUpperBound;
      outer.children.push_back(std::move(repeat));
      repeat = std::move(outer);
    }
    if (const char next = reader_.Peek(); next == '*' || next == '+' || next == '?' || next == '{') {
      return reader_.Refuse("a repeat directly after a repeat is not built; put a group around the first");
    }
    return repeat;
  }

  PatternReader reader_;
  PatternTree tree_;
};

}  // namespace

absl::StatusOr<PatternTree> ParseSplitPattern(std::string_view pattern) {
  if (pattern.size() > kLongestPattern) {
    return PatternReader(pattern).Refuse(
        kLongestPattern, absl::StrCat("the pattern is longer than ", kLongestPattern, " bytes"));
  }
  ROPELAB_ASSIGN_OR_RETURN(PatternTree tree, Parser(pattern).Parse());
  if (LeastLength(tree.root) == 0) {
    return PatternReader(pattern).Refuse(0, "the pattern can match the empty text");
  }
  return tree;
}

}  // namespace ropelab::formats
