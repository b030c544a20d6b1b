// Typed reads of one config.json. A field that is missing or null takes its default; a field of the wrong
// type or outside its range is an error that says field, value and what would be right. The first error is
// kept, later reads go on with defaults, so that a family's reader is a plain list of fields.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace ropelab::formats {

class ConfigFields {
 public:
  // `file` is what messages call it; `path` is put before field names ("rope_scaling.").
  ConfigFields(const nlohmann::json& object, std::string file, std::string path = "");

  // Present and not null.
  bool Has(const char* name) const;
  // Present, null or not: some fields mean one thing when null and another when missing.
  bool Given(const char* name) const;
  // Names of the fields that are not null, sorted.
  std::vector<std::string> Names() const;
  bool HoldsObject(const std::string& name) const;
  // All that was given, for readers with types of their own; they report through Refuse.
  const nlohmann::json& object() const { return object_; }
  int64_t Integer(const char* name, int64_t low, int64_t high, std::optional<int64_t> missing);
  // Finite and low < value <= high.
  double Number(const char* name, double low, double high, std::optional<double> missing);
  bool Boolean(const char* name, bool missing);
  std::string Text(const char* name, const std::string& missing);
  // One integer or a list of them, each within [0, 2^31).
  std::vector<int32_t> TokenIds(const char* name, const std::vector<int32_t>& missing);
  // A list of exactly `size` numbers, each finite and low < value <= high; required.
  std::vector<double> Numbers(const char* name, size_t size, double low, double high);
  // A list of exactly `size` strings; required.
  std::vector<std::string> Texts(const char* name, size_t size);
  // The object under `name`; an empty one when missing or null.
  ConfigFields Object(const char* name);

  // Refuses a value that was read: "<file>: <name> is <value>; <remedy>".
  void Refuse(const std::string& name, const std::string& value, const std::string& remedy);
  // Takes over the error of the fields inside, if this has none.
  void Adopt(const ConfigFields& inner);
  const absl::Status& status() const { return status_; }

 private:
  const nlohmann::json* Value(const char* name) const;

  nlohmann::json object_;
  std::string file_;
  std::string path_;
  absl::Status status_;
};

}  // namespace ropelab::formats
