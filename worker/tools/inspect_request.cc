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

template <typename Edit>
void ResolvePositions(Edit& edit) {
  if (!edit.has_positions() && !edit.has_position_range()) edit.set_positions(v1::EditPositions::ALL);
}

template <typename Edit>
void ResolveDims(Edit& edit) {
  if (!edit.has_target()) edit.set_target(v1::Target::QUERY);
  if (!edit.has_stage()) edit.set_stage(v1::EditStage::PRE_ROPE);
  ResolvePositions(edit);
}

// What is left out becomes what the server writes into a resolved spec.
void ResolveEdit(v1::Intervention& edit) {
  if (edit.has_zero_head()) ResolvePositions(*edit.mutable_zero_head());
  if (edit.has_zero_dims()) ResolveDims(*edit.mutable_zero_dims());
  if (edit.has_unrotate()) ResolvePositions(*edit.mutable_unrotate());
  if (edit.has_scale_dims()) ResolveDims(*edit.mutable_scale_dims());
  if (edit.has_low_rank() && edit.low_rank().matrices().empty()) {
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
  for (v1::Intervention& edit : *spec.mutable_inspection()->mutable_interventions()) ResolveEdit(edit);
  return spec;
}

}  // namespace ropelab::tools
