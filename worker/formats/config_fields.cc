#include "worker/formats/config_fields.h"

#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ropelab::formats {
namespace {

constexpr size_t kShownBytes = 80;

std::string Shown(const nlohmann::json& value) {
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (text.size() > kShownBytes) text = text.substr(0, kShownBytes) + "...";
  return text;
}

std::optional<int64_t> AsInteger(const nlohmann::json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() &&
      value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return std::numeric_limits<int64_t>::max();
  }
  return value.get<int64_t>();
}

}  // namespace

ConfigFields::ConfigFields(const nlohmann::json& object, std::string file, std::string path)
    : object_(object), file_(std::move(file)), path_(std::move(path)) {}

const nlohmann::json* ConfigFields::Value(const char* name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

bool ConfigFields::Has(const char* name) const {
  return Value(name) != nullptr;
}

bool ConfigFields::Given(const char* name) const {
  return object_.find(name) != object_.end();
}

std::vector<std::string> ConfigFields::Names() const {
  std::vector<std::string> names;
  for (auto field = object_.begin(); field != object_.end(); ++field) {
    if (!field->is_null()) names.push_back(field.key());
  }
  return names;
}

bool ConfigFields::HoldsObject(const std::string& name) const {
  const nlohmann::json* value = Value(name.c_str());
  return value != nullptr && value->is_object();
}

int64_t ConfigFields::Integer(const char* name, int64_t low, int64_t high, std::optional<int64_t> missing) {
  const std::string right = absl::StrCat("it must be an integer from ", low, " to ", high);
  const nlohmann::json* value = Value(name);
  if (value == nullptr) {
    if (!missing.has_value()) Refuse(name, "missing", right);
    return missing.value_or(low);
  }
  const std::optional<int64_t> integer = AsInteger(*value);
  if (integer.has_value() && *integer >= low && *integer <= high) return *integer;
  Refuse(name, Shown(*value), right);
  return missing.value_or(low);
}

double ConfigFields::Number(const char* name, double low, double high, std::optional<double> missing) {
  const std::string right = absl::StrCat("it must be a number above ", low, " and at most ", high);
  const nlohmann::json* value = Value(name);
  if (value == nullptr) {
    if (!missing.has_value()) Refuse(name, "missing", right);
    return missing.value_or(high);
  }
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (std::isfinite(number) && number > low && number <= high) return number;
  Refuse(name, Shown(*value), right);
  return missing.value_or(high);
}

bool ConfigFields::Boolean(const char* name, bool missing) {
  const nlohmann::json* value = Value(name);
  if (value == nullptr) return missing;
  if (value->is_boolean()) return value->get<bool>();
  Refuse(name, Shown(*value), "it must be true or false");
  return missing;
}

std::string ConfigFields::Text(const char* name, const std::string& missing) {
  const nlohmann::json* value = Value(name);
  if (value == nullptr) return missing;
  if (value->is_string()) return value->get<std::string>();
  Refuse(name, Shown(*value), "it must be a string");
  return missing;
}

std::vector<int32_t> ConfigFields::TokenIds(const char* name, const std::vector<int32_t>& missing) {
  if (object_.find(name) == object_.end()) return missing;
  const nlohmann::json* value = Value(name);
  if (value == nullptr) return {};
  std::vector<int32_t> ids;
  const nlohmann::json list = value->is_array() ? *value : nlohmann::json::array({*value});
  for (const nlohmann::json& item : list) {
    const std::optional<int64_t> id = AsInteger(item);
    if (!id.has_value() || *id < 0 || *id > std::numeric_limits<int32_t>::max()) {
      Refuse(name, Shown(*value), "it must be a token id from 0, or a list of them");
      return {};
    }
    ids.push_back(static_cast<int32_t>(*id));
  }
  return ids;
}

std::vector<double> ConfigFields::Numbers(const char* name, size_t size, double low, double high) {
  std::vector<double> numbers;
  const nlohmann::json* value = Value(name);
  if (value == nullptr || !value->is_array() || value->size() != size) {
    Refuse(name,
           value == nullptr     ? "missing"
           : !value->is_array() ? Shown(*value)
                                : absl::StrCat("a list of ", value->size()),
           absl::StrCat("it must be a list of ", size, " numbers"));
    return std::vector<double>(size, high);
  }
  for (const nlohmann::json& item : *value) {
    const double number = item.is_number() ? item.get<double>() : std::nan("");
    if (!(std::isfinite(number) && number > low && number <= high)) {
      Refuse(absl::StrCat(name, "[", numbers.size(), "]"), Shown(item),
             absl::StrCat("it must be a number above ", low, " and at most ", high));
      return std::vector<double>(size, high);
    }
    numbers.push_back(number);
  }
  return numbers;
}

std::vector<std::string> ConfigFields::Texts(const char* name, size_t size) {
  std::vector<std::string> texts;
  const nlohmann::json* value = Value(name);
  const bool right = value != nullptr && value->is_array() && value->size() == size;
  for (size_t i = 0; right && i < size; ++i) {
    if ((*value)[i].is_string()) texts.push_back((*value)[i].get<std::string>());
  }
  if (texts.size() == size) return texts;
  Refuse(name, value == nullptr ? "missing" : Shown(*value),
         absl::StrCat("it must be a list of ", size, " strings"));
  return std::vector<std::string>(size);
}

ConfigFields ConfigFields::Object(const char* name) {
  const std::string path = absl::StrCat(path_, name, ".");
  const nlohmann::json* value = Value(name);
  if (value == nullptr) return {nlohmann::json::object(), file_, path};
  if (value->is_object()) return {*value, file_, path};
  Refuse(name, Shown(*value), "it must be an object or null");
  return {nlohmann::json::object(), file_, path};
}

void ConfigFields::Refuse(const std::string& name, const std::string& value, const std::string& remedy) {
  if (status_.ok()) {
    status_ = absl::InvalidArgumentError(absl::StrCat(file_, ": ", path_, name, " is ", value, "; ", remedy));
  }
}

void ConfigFields::Adopt(const ConfigFields& inner) {
  if (status_.ok()) status_ = inner.status_;
}

}  // namespace ropelab::formats
