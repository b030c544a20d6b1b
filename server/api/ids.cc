#include "server/api/ids.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace ropelab::api {
namespace {

// "e" and at most 18 digits without a leading zero: one spelling for one number, and no overflow.
bool IsNumber(const std::string& id) {
  if (id.size() < 2 || id.size() > 19 || id[1] == '0') {
    return false;
  }
  return id.find_first_not_of("0123456789", 1) == std::string::npos;
}

}  // namespace

std::string ExperimentId(int64_t number) {
  return absl::StrCat("e", number);
}
std::string StudyId(int64_t number) {
  return absl::StrCat("s", number);
}

absl::StatusOr<PublicId> ParseId(const std::string& id) {
  PublicId parsed;
  if (!IsNumber(id) || (id[0] != 'e' && id[0] != 's') || !absl::SimpleAtoi(id.substr(1), &parsed.number)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "id: value \"", id.substr(0, 80),
        "\": an id is \"e\" (an experiment) or \"s\" (a study) and a number, as `ropelab list` shows it"));
  }
  parsed.is_study = id[0] == 's';
  return parsed;
}

absl::Status UnknownId(const std::string& id) {
  return absl::NotFoundError(absl::StrCat(id[0] == 's' ? "study " : "experiment ", id,
                                          " does not exist; `ropelab list` shows what does"));
}

}  // namespace ropelab::api
