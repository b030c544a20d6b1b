#include "worker/train/recipe_fields.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace ropelab::train {
namespace {

using formats::ConfigFields;

constexpr size_t kShownBytes = 80;

std::string Shown(const nlohmann::json& value) {
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (text.size() > kShownBytes) text = text.substr(0, kShownBytes) + "...";
  return text;
}

// Null where the field is missing.
nlohmann::json ValueOf(const ConfigFields& fields, const std::string& name) {
  return fields.Has(name.c_str()) ? fields.object().at(name) : nlohmann::json();
}

// Bounds lie within 2^53, so that a double names each whole number between them.
std::optional<double> Within(const nlohmann::json& value, double low, double high) {
  if (!value.is_number()) return std::nullopt;
  const auto number = value.get<double>();
  if (!(number >= low && number <= high)) return std::nullopt;
  return number == 0 ? 0 : number;  // -0 is 0
}

std::optional<int64_t> WholeWithin(const nlohmann::json& value, int64_t low, int64_t high) {
  const auto number = Within(value, static_cast<double>(low), static_cast<double>(high));
  if (!number.has_value() || std::floor(*number) != *number) return std::nullopt;
  if (value.is_number_integer() && value.get<int64_t>() > high) return std::nullopt;  // 2^53 + 1
  return static_cast<int64_t>(*number);
}

// The entries that `read` takes; the first other one is refused.
template <typename T, typename Read>
std::vector<T> List(ConfigFields& fields, const std::string& name, const std::vector<T>& missing,
                    const std::string& right, Read read) {
  const nlohmann::json list = ValueOf(fields, name);
  if (list.is_null()) return missing;
  if (!list.is_array()) {
    fields.Refuse(name, Shown(list), absl::StrCat("it must be a list; for each entry ", right));
    return missing;
  }
  std::vector<T> values;
  for (const nlohmann::json& item : list) {
    const std::optional<T> value = read(item);
    if (!value.has_value()) {
      fields.Refuse(absl::StrCat(name, "[", values.size(), "]"), Shown(item), right);
      return missing;
    }
    values.push_back(*value);
  }
  return values;
}

std::string NumberRange(double low, double high) {
  return absl::StrFormat("it must be a number from %.9g to %.9g", low, high);
}

std::string Joined(std::initializer_list<std::string_view> names, const char* between) {
  return absl::StrJoin(names, between, [](std::string* out, std::string_view name) { out->append(name); });
}

std::string WholeRange(int64_t low, int64_t high) {
  return absl::StrCat("it must be a whole number from ", low, " to ", high);
}

}  // namespace

void OnlyThese(ConfigFields& fields, std::initializer_list<std::string_view> known) {
  for (const auto& [name, value] : fields.object().items()) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    fields.Refuse(name, "a field that a recipe does not have",
                  absl::StrCat("fields here are ", Joined(known, ", ")));
  }
}

int64_t WholeNumber(ConfigFields& fields, const std::string& name, int64_t low, int64_t high,
                    int64_t missing) {
  const nlohmann::json value = ValueOf(fields, name);
  if (value.is_null()) return missing;
  const std::optional<int64_t> number = WholeWithin(value, low, high);
  if (!number.has_value()) fields.Refuse(name, Shown(value), WholeRange(low, high));
  return number.value_or(missing);
}

std::vector<int64_t> WholeNumbers(ConfigFields& fields, const std::string& name, int64_t low, int64_t high,
                                  const std::vector<int64_t>& missing) {
  return List(fields, name, missing, WholeRange(low, high),
              [&](const nlohmann::json& item) { return WholeWithin(item, low, high); });
}

double NumberFrom(ConfigFields& fields, const std::string& name, double low, double high, double missing) {
  const nlohmann::json value = ValueOf(fields, name);
  if (value.is_null()) return missing;
  const std::optional<double> number = Within(value, low, high);
  if (!number.has_value()) fields.Refuse(name, Shown(value), NumberRange(low, high));
  return number.value_or(missing);
}

std::vector<double> NumbersFrom(ConfigFields& fields, const std::string& name, double low, double high,
                                const std::vector<double>& missing) {
  return List(fields, name, missing, NumberRange(low, high),
              [&](const nlohmann::json& item) { return Within(item, low, high); });
}

std::string OneOf(ConfigFields& fields, const std::string& name, const std::string& missing,
                  std::initializer_list<std::string_view> known) {
  const std::string value = fields.Text(name.c_str(), missing);
  if (std::find(known.begin(), known.end(), value) == known.end()) {
    fields.Refuse(name, value, absl::StrCat("write ", Joined(known, " or ")));
  }
  return value;
}

}  // namespace ropelab::train
