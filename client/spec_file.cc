#include "client/spec_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/field_hints.h"
#include "client/json_problem.h"
#include "common/status_macros.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/json_util.h"
#include "nlohmann/json.hpp"

namespace ropelab::client {
namespace {

namespace io = google::protobuf::io;

// Keeps the first complaint: those after it are mostly its echo.
class FirstError : public io::ErrorCollector {
 public:
  explicit FirstError(std::string name) : name_(std::move(name)) {}
  void AddError(int line, io::ColumnNumber column, const std::string& message) override {
    if (first_.empty()) {
      line_ = line;
      column_ = column;
      // The parser counts from 0, and says -1 when it knows no place.
      first_ = line < 0 ? absl::StrCat(name_, ": ", message)
                        : absl::StrCat(name_, ":", line + 1, ":", column + 1, ": ", message);
    }
  }
  const std::string& first() const { return first_; }
  int line() const { return line_; }  // from 0, as `column`
  int column() const { return column_; }

 private:
  std::string name_;
  std::string first_;
  int line_ = -1;
  int column_ = -1;
};

// Whether a text-format file names `experiments` outside every bracket. Broken text is the parser's to
// refuse.
bool TextIsStudy(const std::string& text) {
  io::ArrayInputStream input(text.data(), static_cast<int>(text.size()));
  FirstError ignored("");
  io::Tokenizer tokenizer(&input, &ignored);
  tokenizer.set_comment_style(io::Tokenizer::SH_COMMENT_STYLE);
  int depth = 0;
  while (tokenizer.Next()) {
    const std::string& token = tokenizer.current().text;
    if (token == "{" || token == "<" || token == "[") {
      ++depth;
    } else if (token == "}" || token == ">" || token == "]") {
      --depth;
    } else if (depth == 0 && token == "experiments") {
      return true;
    }
  }
  return false;
}

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;

// The enumerations of fields of this name in `type` and below: the parser's complaint does not say in which
// message the field stands.
void FindEnums(const Descriptor& type, const std::string& field_name, std::set<const Descriptor*>* seen,
               std::set<const EnumDescriptor*>* found) {
  if (!seen->insert(&type).second) return;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      FindEnums(*field.message_type(), field_name, seen, found);
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM && field.name() == field_name) {
      found->insert(field.enum_type());
    }
  }
}

// " Values: FLOAT32, BFLOAT16", or nothing where several enumerations go by this field's name.
std::string ValuesOfField(const std::string& field_name) {
  std::set<const Descriptor*> seen;
  std::set<const EnumDescriptor*> found;
  FindEnums(*v1::Submission::descriptor(), field_name, &seen, &found);
  return found.size() == 1 ? absl::StrCat(" Values: ", ValuesOf(**found.begin())) : "";
}

// The messages of fields of this name in `type` and below.
void FindMessages(const Descriptor& type, const std::string& field_name, std::set<const Descriptor*>* seen,
                  std::set<const Descriptor*>* found) {
  if (!seen->insert(&type).second) return;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (field.name() == field_name) found->insert(field.message_type());
    FindMessages(*field.message_type(), field_name, seen, found);
  }
}

// The last name before a place (both from 0), past the white space, colon and bracket between: the field of
// which the parser expected a {.
std::string NameBefore(const std::string& text, int line, int column) {
  size_t at = 0;
  for (int i = 0; i < line && at != std::string::npos; ++i) {
    at = text.find('\n', at);
    if (at != std::string::npos) ++at;
  }
  if (line < 0 || column < 0 || at == std::string::npos) return "";
  const auto is_name = [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  // The parser counts a tab as several columns; a name that is not one is then not found below.
  size_t end = std::min(text.size(), at + static_cast<size_t>(column));
  while (end > 0 && absl::StrContains(" \t\r\n:[", text[end - 1])) --end;
  size_t begin = end;
  while (begin > 0 && is_name(text[begin - 1])) --begin;
  return text.substr(begin, end - begin);
}

// What to write where a field that holds others was given a value: " (haystack holds fields: haystack { ... }
// with corpus, generated)".
std::string Braces(const std::string& field_name) {
  std::set<const Descriptor*> seen;
  std::set<const Descriptor*> found;
  FindMessages(*v1::Submission::descriptor(), field_name, &seen, &found);
  if (found.empty()) return "";
  return absl::StrCat(" ", field_name, " holds fields of its own, in braces: ", field_name, " { ... }",
                      found.size() == 1 ? "." + FieldsOf(**found.begin()) : "");
}

// What stands between the first `before` and the next quotation mark.
std::string Quoted(const std::string& text, const std::string& before) {
  const size_t begin = text.find(before);
  if (begin == std::string::npos) return "";
  const size_t first = begin + before.size();
  return text.substr(first, text.find('"', first) - first);
}

// What to do about a complaint of the parser, where its words do not say it.
std::string Remedy(const std::string& complaint) {
  if (absl::EndsWith(complaint, ", got: ") || absl::EndsWith(complaint, "found \"\".")) {
    return "nothing: the file ends there; is a } missing?";
  }
  if (absl::StrContains(complaint, "Expected string, got: ")) {
    return " (a text stands in quotation marks)";
  }
  if (absl::StrContains(complaint, "Expected ") && absl::StrContains(complaint, ", got: \"")) {
    return " (it stands without quotation marks)";
  }
  if (absl::StrContains(complaint, "Unknown enumeration value")) {
    return ValuesOfField(Quoted(complaint, "for field \""));
  }
  if (absl::StrContains(complaint, "has no field named")) {
    const auto* type = google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName(
        Quoted(complaint, "Message type \""));
    return type == nullptr ? "" : HintOf(*type, Quoted(complaint, "has no field named \""));
  }
  return "";
}

absl::Status ParseText(const std::string& name, const std::string& text, google::protobuf::Message* message) {
  FirstError errors(name);
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  parser.SetRecursionLimit(100);
  if (!parser.ParseFromString(text, message)) {
    if (absl::StrContains(errors.first(), "Expected \"{\", found \"") &&
        !absl::EndsWith(errors.first(), "found \"\".")) {
      return absl::InvalidArgumentError(
          absl::StrCat(errors.first(), Braces(NameBefore(text, errors.line(), errors.column()))));
    }
    return absl::InvalidArgumentError(errors.first().empty()
                                          ? absl::StrCat(name, ": is not text format")
                                          : absl::StrCat(errors.first(), Remedy(errors.first())));
  }
  return absl::OkStatus();
}

absl::Status ParseJson(const std::string& name, const std::string& text, google::protobuf::Message* message) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = false;
  const auto status = google::protobuf::util::JsonStringToMessage(text, message, options);
  if (!status.ok()) {
    const std::string problem = JsonProblem(text, *message->GetDescriptor());
    return absl::InvalidArgumentError(problem.empty()
                                          ? absl::StrCat(name, ": ", std::string(status.message()))
                                          : absl::StrCat(name, ":", problem));
  }
  return absl::OkStatus();
}

// The index of the first byte that is not part of valid UTF-8, or npos.
size_t FirstInvalidUtf8(const std::string& text) {
  size_t i = 0;
  while (i < text.size()) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t length = lead < 0x80 ? 1 : lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if ((lead >= 0x80 && lead < 0xC2) || lead > 0xF4 || i + length > text.size()) {
      return i;
    }
    for (size_t k = 1; k < length; ++k) {
      const auto byte = static_cast<unsigned char>(text[i + k]);
      unsigned char low = 0x80, high = 0xBF;
      if (k == 1) {  // no overlong forms, no surrogates, nothing beyond U+10FFFF
        low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
        high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
      }
      if (byte < low || byte > high) {
        return i;
      }
    }
    i += length;
  }
  return std::string::npos;
}

bool IsJson(const std::string& name, const std::string& text) {
  if (absl::EndsWith(name, ".json")) {
    return true;
  }
  if (absl::EndsWith(name, ".textproto")) {
    return false;
  }
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string::npos && text[first] == '{';
}

}  // namespace

absl::StatusOr<std::string> ReadSpecFile(const std::string& path) {
  std::ifstream file;
  if (path != "-") {
    file.open(path, std::ios::binary);
    if (!file) {
      return absl::NotFoundError(absl::StrCat(path, ": cannot be opened: ", std::strerror(errno)));
    }
  }
  std::istream& input = path == "-" ? std::cin : file;
  std::string text(static_cast<size_t>(kMaxSpecBytes) + 1, '\0');
  errno = 0;
  input.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (input.bad() || (input.gcount() == 0 && errno != 0)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be read: ", std::strerror(errno)));
  }
  text.resize(static_cast<size_t>(input.gcount()));
  if (static_cast<int64_t>(text.size()) > kMaxSpecBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is larger than the ", kMaxSpecBytes,
                     " bytes that a spec may have: register long token lists as a corpus"));
  }
  return text;
}

absl::StatusOr<v1::Submission> ParseSpec(const std::string& name, const std::string& original) {
  const std::string text = absl::StartsWith(original, "\xEF\xBB\xBF") ? original.substr(3) : original;
  if (const size_t bad = FirstInvalidUtf8(text); bad != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": byte ", bad, " is not UTF-8: save the file in that encoding"));
  }
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": is empty"));
  }
  v1::Submission submission;
  if (IsJson(name, text)) {
    if (absl::Status status = CheckJson(name, text); !status.ok()) {
      return status;
    }
    const bool study = nlohmann::json::parse(text, nullptr, false).contains("experiments");
    google::protobuf::Message* spec = submission.mutable_experiment();
    if (study) {
      spec = submission.mutable_study();
    }
    ROPELAB_RETURN_IF_ERROR(ParseJson(name, text, spec));
    return submission;
  }
  google::protobuf::Message* spec = submission.mutable_experiment();
  if (TextIsStudy(text)) {
    spec = submission.mutable_study();
  }
  ROPELAB_RETURN_IF_ERROR(ParseText(name, text, spec));
  return submission;
}

}  // namespace ropelab::client
