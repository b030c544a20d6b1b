#include "client/json_problem.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "client/field_hints.h"
#include "client/field_values.h"
#include "client/human.h"
#include "nlohmann/json.hpp"

namespace ropelab::client {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

constexpr int64_t kLongestShown = 80;
constexpr char kNoObject[] = "a spec is an object in braces: { ... }";

// Walks the text beside the fields that it fills, up to the first part that does not fit.
class MisfitFinder : public nlohmann::json_sax<nlohmann::json> {
 public:
  // Reads through a stream: the parser itself does not tell where it stands.
  MisfitFinder(const std::string& text, const Descriptor& type) : text_(text), stream_(text), root_(type) {}

  std::string Find() {
    nlohmann::json::sax_parse(stream_, this);
    return problem_;
  }

  bool null() override {  // a field that is left out
    return !levels_.empty() ? Next() : Problem(kNoObject);
  }
  bool boolean(bool value) override {
    return Scalar(value ? "true" : "false", [](const FieldDescriptor& field) { return TakesBool(field); });
  }
  bool number_integer(number_integer_t value) override {
    return Number(static_cast<double>(value), absl::StrCat(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return Number(static_cast<double>(value), absl::StrCat(value));
  }
  bool number_float(number_float_t value, const string_t& written) override { return Number(value, written); }
  bool string(string_t& value) override {
    return Scalar(Quoted(value), [&](const FieldDescriptor& field) { return TakesText(field, value); });
  }
  bool binary(binary_t&) override { return false; }

  bool start_object(std::size_t) override {
    if (levels_.empty()) {
      levels_.push_back({&root_});
      return true;
    }
    if (!Fits("{ ... }", [](const FieldDescriptor& field) { return field.message_type() != nullptr; })) {
      return false;
    }
    levels_.push_back({levels_.back().field->message_type()});
    return true;
  }
  bool end_object() override {
    levels_.pop_back();
    return levels_.empty() || Next();
  }
  bool start_array(std::size_t) override {
    if (levels_.empty()) {
      return Problem(kNoObject);
    }
    if (!levels_.back().field->is_repeated()) {
      return Problem(absl::StrCat(Path(), ": is no list: ", Wanted(*levels_.back().field)));
    }
    levels_.back().index = 0;
    return true;
  }
  bool end_array() override {
    levels_.back().index = kNoList;
    return true;
  }

  bool key(string_t& key) override {
    Level& level = levels_.back();
    level.field = level.type->FindFieldByName(key);
    for (int i = 0; i < level.type->field_count() && level.field == nullptr; ++i) {
      level.field = level.type->field(i)->json_name() == key ? level.type->field(i) : nullptr;
    }
    return level.field != nullptr ||
           Problem(absl::StrCat(Path(), levels_.size() > 1 ? ": " : "", "there is no field ", Quoted(key),
                                ".", HintOf(*level.type, key)));
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  static constexpr int64_t kNoList = -1;
  struct Level {
    const Descriptor* type;
    const FieldDescriptor* field = nullptr;           // whose value is read
    int64_t index = kNoList;                          // in that field's list
    std::vector<const FieldDescriptor*> chosen = {};  // by the spec, each of another oneof
  };

  bool Problem(const std::string& what) {
    // A number's end shows in the character behind it, which may be a line's end: it is not counted.
    const auto read = std::max<int64_t>(stream_.rdbuf()->pubseekoff(0, std::ios::cur, std::ios::in), 1);
    problem_ = absl::StrCat(1 + std::count(text_.begin(), text_.begin() + (read - 1), '\n'), ": ", what);
    return false;
  }
  // A value as it is written.
  bool Fits(const std::string& written, absl::FunctionRef<bool(const FieldDescriptor&)> takes) {
    if (levels_.empty()) {
      return Problem(kNoObject);
    }
    Level& level = levels_.back();
    if (!takes(*level.field)) {
      return Problem(absl::StrCat(Path(), ": ", written, ": ", Wanted(*level.field)));
    }
    if (level.field->real_containing_oneof() == nullptr) {
      return true;
    }
    for (const FieldDescriptor* other : level.chosen) {
      if (other->real_containing_oneof() == level.field->real_containing_oneof()) {
        return Problem(
            absl::StrCat(Path(), ": cannot stand beside ", other->name(), ": keep one of the two"));
      }
    }
    level.chosen.push_back(level.field);
    return true;
  }
  bool Scalar(const std::string& written, absl::FunctionRef<bool(const FieldDescriptor&)> takes) {
    return Fits(written, takes) && Next();
  }
  bool Number(double value, const std::string& written) {
    return Scalar(written, [&](const FieldDescriptor& field) { return TakesNumber(field, value); });
  }
  bool Next() {
    Level& level = levels_.back();
    level.index += level.index == kNoList ? 0 : 1;
    return true;
  }
  std::string Path() const {
    std::string path;
    for (const Level& level : levels_) {
      if (level.field != nullptr) {
        absl::StrAppend(&path, path.empty() ? "" : ".", level.field->name());
      }
      if (level.index != kNoList) {
        absl::StrAppend(&path, ".", level.index);
      }
    }
    return path;
  }
  static std::string Quoted(const std::string& text) {
    return absl::StrCat("\"", Shortened(Printable(text), kLongestShown), "\"");
  }

  const std::string& text_;
  std::istringstream stream_;
  const Descriptor& root_;
  std::vector<Level> levels_;
  std::string problem_;
};

}  // namespace

std::string JsonProblem(const std::string& text, const Descriptor& type) {
  return MisfitFinder(text, type).Find();
}

}  // namespace ropelab::client
