#include "worker/formats/json_text.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace ropelab::formats {
namespace {

using Json = nlohmann::json;
constexpr size_t kMaxDepth = 32;

// A first pass that builds nothing: the parser itself neither bounds depth nor minds repeated keys.
class StructureCheck : public nlohmann::json_sax<Json> {
 public:
  const std::string& error() const { return error_; }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(Json::number_integer_t) override { return true; }
  bool number_unsigned(Json::number_unsigned_t) override { return true; }
  bool number_float(Json::number_float_t, const Json::string_t&) override { return true; }
  bool string(Json::string_t&) override { return true; }
  bool binary(Json::binary_t&) override { return true; }
  bool start_object(size_t) override { return Enter(); }
  bool start_array(size_t) override { return Enter(); }
  bool end_object() override { return Leave(); }
  bool end_array() override { return Leave(); }
  bool key(Json::string_t& name) override {
    if (keys_.back().insert(name).second) return true;
    error_ = absl::StrCat("field ", name, " is given twice; keep one");
    return false;
  }
  bool parse_error(size_t, const std::string&, const Json::exception& exception) override {
    error_ = absl::StrCat("not JSON: ", exception.what());
    return false;
  }

 private:
  bool Enter() {
    if (keys_.size() == kMaxDepth) {
      error_ = absl::StrCat("nested deeper than ", kMaxDepth);
      return false;
    }
    keys_.emplace_back();
    return true;
  }
  bool Leave() {
    keys_.pop_back();
    return true;
  }
  std::vector<std::set<std::string>> keys_;
  std::string error_;
};

}  // namespace

absl::StatusOr<std::string> ReadWholeFile(const std::string& path, size_t max_bytes) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) {
    return absl::NotFoundError(absl::StrCat(path, ": no such file"));
  }
  if (error) return absl::PermissionDeniedError(absl::StrCat(path, ": cannot be read: ", error.message()));
  if (status.type() != std::filesystem::file_type::regular) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is not a regular file; put one there"));
  }
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (!error && size > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": has ", size, " bytes, at most ", max_bytes, " are read"));
  }
  if (error) return absl::PermissionDeniedError(absl::StrCat(path, ": cannot be read: ", error.message()));
  // Through read(), which tells a failure from an end: half a file must not pass for a whole one.
  std::string text(size, '\0');
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  if (!stream || (size > 0 && !stream.read(text.data(), static_cast<std::streamsize>(size)))) {
    return absl::PermissionDeniedError(
        absl::StrCat(path, ": cannot be read: ", errno != 0 ? std::strerror(errno) : "it shrank meanwhile"));
  }
  return text;
}

absl::StatusOr<Json> ReadJsonObject(const std::string& path, size_t max_bytes) {
  ROPELAB_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path, max_bytes));
  StructureCheck check;
  if (!Json::sax_parse(text, &check)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", check.error()));
  }
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return absl::InvalidArgumentError(absl::StrCat(path, ": is not a JSON object"));
  return json;
}

}  // namespace ropelab::formats
