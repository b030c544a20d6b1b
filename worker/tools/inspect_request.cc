#include "worker/tools/inspect_request.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>

#include <charconv>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace ropelab::tools {
namespace {

// Keeps the parser's first complaint, with its place.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (text_.empty()) text_ = absl::StrCat("line ", line + 1, ", column ", column + 1, ": ", message);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string ParseText(const std::string& text, v1::ExperimentSpec& spec) {
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  return parser.ParseFromString(text, &spec) ? "" : error.text();
}

std::string ParseJson(const std::string& text, v1::ExperimentSpec& spec) {
  const auto status = google::protobuf::util::JsonStringToMessage(text, &spec);
  return status.ok() ? "" : status.ToString();
}

// As the server resolves it: a low-rank edit that names no matrix is one of both.
void ResolveMatrices(v1::Inspection& inspection) {
  for (v1::Intervention& edit : *inspection.mutable_interventions()) {
    if (!edit.has_low_rank() || edit.low_rank().matrices_size() > 0) continue;
    edit.mutable_low_rank()->add_matrices(v1::Matrix::QUERY);
    edit.mutable_low_rank()->add_matrices(v1::Matrix::KEY);
  }
}

}  // namespace

absl::StatusOr<v1::TokenIds> ReadTokenIds(const std::string& text) {
  v1::TokenIds ids;
  const std::string separators = ", \t\r\n[]";
  size_t at = text.find_first_not_of(separators);
  while (at != std::string::npos) {
    const size_t end = std::min(text.find_first_of(separators, at), text.size());
    int32_t id = 0;
    const auto [rest, error] = std::from_chars(text.data() + at, text.data() + end, id);
    if (error != std::errc() || rest != text.data() + end) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", text.substr(at, end - at), "' is not a token id; give integers such as \"1,403,407\""));
    }
    ids.add_ids(id);
    at = text.find_first_not_of(separators, end);
  }
  return ids;
}

std::vector<std::string> ReadNames(const std::string& text) {
  std::vector<std::string> names;
  std::stringstream stream(text);
  for (std::string name; std::getline(stream, name, ',');) {
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  if (!file || !(text << file.rdbuf())) {
    return absl::NotFoundError(absl::StrCat(path, ": it is not there, empty, or cannot be read"));
  }
  return text.str();
}

absl::StatusOr<v1::ExperimentSpec> ReadInspectionSpec(const std::string& path) {
  ROPELAB_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  v1::ExperimentSpec spec;
  const std::string problem = path.ends_with(".json") ? ParseJson(text, spec) : ParseText(text, spec);
  if (!problem.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not an ExperimentSpec: ", problem));
  }
  if (!spec.has_inspection()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " holds no inspection { ... }, which `inspect` needs"));
  }
  ResolveMatrices(*spec.mutable_inspection());
  return spec;
}

}  // namespace ropelab::tools
