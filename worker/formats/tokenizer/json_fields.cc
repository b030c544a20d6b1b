#include "worker/formats/tokenizer/json_fields.h"

#include "absl/strings/str_cat.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "worker/formats/tokenizer/utf8.h"

namespace ropelab::formats {

using Json = nlohmann::json;

std::string Shown(const Json& value) {
  return Printable(value.dump(-1, ' ', false, Json::error_handler_t::replace), 60);
}

absl::StatusOr<JsonFields> JsonFields::Of(const Json& value, std::string path) {
  if (!value.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path.empty() ? "the file" : path, ": ", Shown(value), " is no JSON object"));
  }
  return JsonFields(value, std::move(path));
}

std::string JsonFields::PathOf(std::string_view name) const {
  return path_.empty() ? std::string(name) : absl::StrCat(path_, ".", std::string(name));
}

absl::Status JsonFields::Error(std::string_view name, std::string_view problem) const {
  return absl::InvalidArgumentError(absl::StrCat(PathOf(name), ": ", std::string(problem)));
}

const Json* JsonFields::Find(const char* name) {
  read_.insert(name);
  const auto found = value_->find(name);
  return found == value_->end() || found->is_null() ? nullptr : &*found;
}

absl::StatusOr<bool> JsonFields::Bool(const char* name) {
  const Json* value = Find(name);
  if (value == nullptr) return Error(name, "is missing; give true or false");
  if (!value->is_boolean()) return Error(name, Shown(*value) + " is not true or false");
  return value->get<bool>();
}

absl::StatusOr<bool> JsonFields::BoolOr(const char* name, bool absent) {
  return Find(name) == nullptr ? absent : Bool(name);
}

absl::StatusOr<std::string> JsonFields::String(const char* name) {
  const Json* value = Find(name);
  if (value == nullptr) return Error(name, "is missing; give a string");
  if (!value->is_string()) return Error(name, Shown(*value) + " is not a string");
  return value->get<std::string>();
}

absl::StatusOr<int64_t> JsonFields::Count(const char* name) {
  const Json* value = Find(name);
  if (value == nullptr) return Error(name, "is missing; give an integer from 0");
  if (!value->is_number_integer() || *value < 0 || *value > INT32_MAX) {
    return Error(name, Shown(*value) + " is not an integer from 0 to 2147483647");
  }
  return value->get<int64_t>();
}

absl::StatusOr<std::string> JsonFields::Character(const char* name) {
  ROPELAB_ASSIGN_OR_RETURN(std::string text, String(name));
  if (text.empty() || CharacterBytes(text[0]) != text.size()) {
    return Error(name, Shown(text) + " is not one character");
  }
  return text;
}

absl::StatusOr<const Json*> JsonFields::Array(const char* name) {
  const Json* value = Find(name);
  if (value == nullptr) return Error(name, "is missing; give an array");
  if (!value->is_array()) return Error(name, Shown(*value) + " is not an array");
  return value;
}

void JsonFields::Ignore(std::initializer_list<const char*> names) {
  read_.insert(names.begin(), names.end());
}

absl::Status JsonFields::RefuseOthers() const {
  for (const auto& [name, value] : value_->items()) {
    if (!read_.contains(name)) {
      return Error(name,
                   Shown(value) + " is a field that is not known here, and what it changes is not built");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<TypedFields> FieldsWithType(const Json& value, std::string path) {
  ROPELAB_ASSIGN_OR_RETURN(JsonFields fields, JsonFields::Of(value, std::move(path)));
  ROPELAB_ASSIGN_OR_RETURN(std::string type, fields.String("type"));
  return TypedFields{std::move(type), std::move(fields)};
}

absl::Status TypeNotBuilt(const TypedFields& part, std::string_view built) {
  return part.fields.Error(
      "type", absl::StrCat("'", Printable(part.type, 60), "' is not built; built are ", std::string(built)));
}

}  // namespace ropelab::formats
