// One object of tokenizer.json, read field by field. Errors are INVALID_ARGUMENT and name the field by its
// path from the file's root, the value and what would be right; a field that nobody reads is refused.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ropelab::formats {

class JsonFields {
 public:
  // `value` must outlive the fields. `path` is what messages call it; empty for the root.
  static absl::StatusOr<JsonFields> Of(const nlohmann::json& value, std::string path);

  const std::string& path() const { return path_; }
  std::string PathOf(std::string_view name) const;

  // nullptr when absent or null.
  const nlohmann::json* Find(const char* name);
  absl::StatusOr<bool> Bool(const char* name);
  absl::StatusOr<bool> BoolOr(const char* name, bool absent);
  absl::StatusOr<std::string> String(const char* name);
  absl::StatusOr<int64_t> Count(const char* name);  // an integer from 0
  // A string of exactly one character.
  absl::StatusOr<std::string> Character(const char* name);
  absl::StatusOr<const nlohmann::json*> Array(const char* name);

  // Reads and forgets fields that change nothing here.
  void Ignore(std::initializer_list<const char*> names);
  // Once every known field was read.
  absl::Status RefuseOthers() const;

  // INVALID_ARGUMENT "path.name: problem".
  absl::Status Error(std::string_view name, std::string_view problem) const;

 private:
  JsonFields(const nlohmann::json& value, std::string path) : value_(&value), path_(std::move(path)) {}
  const nlohmann::json* value_;
  std::string path_;
  std::set<std::string> read_;
};

// "NFKC" of {"type": "NFKC"}, after which the fields may be read.
struct TypedFields {
  std::string type;
  JsonFields fields;
};
absl::StatusOr<TypedFields> FieldsWithType(const nlohmann::json& value, std::string path);

// "path.type: 'NFKC' is not built; ..." with what is.
absl::Status TypeNotBuilt(const TypedFields& part, std::string_view built);

// A value for a message: JSON, at most 60 bytes.
std::string Shown(const nlohmann::json& value);

}  // namespace ropelab::formats
