#include <cctype>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/spec_file.h"
#include "nlohmann/json.hpp"

namespace ropelab::client {
namespace {

// protobuf takes both spellings of a field's name: two of them are one key.
std::string CamelCase(const std::string& key) {
  std::string camel;
  bool upper = false;
  for (char c : key) {
    if (c == '_') {
      upper = true;
      continue;
    }
    camel += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    upper = false;
  }
  return camel;
}

// Walks the text with the keys seen so far of each open object; builds nothing.
class DuplicateFinder : public nlohmann::json_sax<nlohmann::json> {
 public:
  const std::string& problem() const { return problem_; }

  bool null() override { return Value(); }
  bool boolean(bool) override { return Value(); }
  bool number_integer(number_integer_t) override { return Value(); }
  bool number_unsigned(number_unsigned_t) override { return Value(); }
  bool number_float(number_float_t, const string_t&) override { return Value(); }
  bool string(string_t&) override { return Value(); }
  bool binary(binary_t&) override { return Value(); }

  bool start_object(std::size_t) override { return Open(false); }
  // No field is a list of lists, and protobuf's parser would make one list of them without a word.
  bool start_array(std::size_t) override {
    if (!levels_.empty() && levels_.back().array) {
      problem_ = absl::StrCat(Path(), ": a list is nested in a list; write one list");
      return false;
    }
    return Open(true);
  }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(string_t& key) override {
    Level& level = levels_.back();
    level.key = key;
    if (level.seen.insert(CamelCase(key)).second) {
      return true;
    }
    problem_ = absl::StrCat(Path(), ": the key is given twice: keep one");
    return false;
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override {
    problem_ = error.what();
    // "[json.exception.parse_error.101] parse error at line 3, column 5: ..."
    if (const size_t end = problem_.find("] "); end != std::string::npos) {
      problem_ = problem_.substr(end + 2);
    }
    return false;
  }

 private:
  struct Level {
    bool array = false;
    int64_t index = 0;
    std::string key;
    std::set<std::string> seen;
  };

  bool Value() {
    if (!levels_.empty()) {
      ++levels_.back().index;
    }
    return true;
  }
  bool Open(bool array) {
    if (levels_.size() >= 100) {
      problem_ = absl::StrCat(Path(), ": nested deeper than 100 levels");
      return false;
    }
    levels_.push_back({array, 0, "", {}});
    return true;
  }
  bool Close() {
    levels_.pop_back();
    return Value();
  }
  std::string Path() const {
    std::string path;
    for (const Level& level : levels_) {
      absl::StrAppend(&path, path.empty() ? "" : ".", level.array ? absl::StrCat(level.index) : level.key);
    }
    return path;
  }

  std::vector<Level> levels_;
  std::string problem_;
};

}  // namespace

absl::Status CheckJson(const std::string& name, const std::string& text) {
  DuplicateFinder finder;
  if (nlohmann::json::sax_parse(text, &finder)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(name, ": ", finder.problem()));
}

}  // namespace ropelab::client
