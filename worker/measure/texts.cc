#include "worker/measure/texts.h"

#include "absl/strings/str_cat.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"

namespace ropelab::measure {
namespace {

constexpr size_t kShownHash = 16;
constexpr size_t kShownField = 200;

}  // namespace

std::string DocumentName(const std::string& corpus, int64_t document) {
  return absl::StrCat("document ", document, " of corpus ", corpus.substr(0, kShownHash));
}

absl::StatusOr<std::string> DocumentText(Texts& texts, const std::string& corpus, int64_t document,
                                         const std::string& text_field) {
  ROPELAB_ASSIGN_OR_RETURN(std::string bytes, texts.Document(corpus, document));
  if (text_field.empty()) return bytes;
  const auto object = nlohmann::json::parse(bytes, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(
        DocumentName(corpus, document), " is no JSON object; mend the file and register it again"));
  }
  const auto field = object.find(text_field);
  if (field == object.end() || !field->is_string()) {
    return absl::InvalidArgumentError(absl::StrCat(
        DocumentName(corpus, document), ": its field \"", Printable(text_field, kShownField), "\" ",
        field == object.end() ? "is missing" : absl::StrCat("is a ", field->type_name(), ", no text"),
        "; every line needs it: mend the file and register it again, or name another text_field"));
  }
  return field->get<std::string>();
}

}  // namespace ropelab::measure
