#include "client/set_field.h"

#include <cmath>
#include <memory>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"
#include "google/protobuf/descriptor.h"

namespace ropelab::client {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

std::string FieldNames(const Descriptor& descriptor) {
  std::vector<std::string> names;
  for (int i = 0; i < descriptor.field_count(); ++i) {
    names.push_back(descriptor.field(i)->name());
  }
  return names.empty() ? "none" : absl::StrJoin(names, ", ");
}

std::string NameOf(const Message& element) {
  const FieldDescriptor* field = element.GetDescriptor()->FindFieldByName("name");
  if (field == nullptr || field->is_repeated() || field->cpp_type() != FieldDescriptor::CPPTYPE_STRING) {
    return "";
  }
  return element.GetReflection()->GetString(element, field);
}

// Paths below `message`, through what is set of it, to fields of this name.
void FindBelow(const Message& message, const std::string& name, const std::string& prefix,
               std::vector<std::string>* found) {
  constexpr size_t kMost = 3;
  const Reflection* reflection = message.GetReflection();
  std::vector<const FieldDescriptor*> set;
  reflection->ListFields(message, &set);
  const auto look = [&](const Message& part, const std::string& path) {
    if (found->size() < kMost && part.GetDescriptor()->FindFieldByName(name) != nullptr) {
      found->push_back(absl::StrCat(path, ".", name));
    }
    FindBelow(part, name, path + ".", found);
  };
  for (const FieldDescriptor* field : set) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || found->size() >= kMost) continue;
    const std::string path = prefix + field->name();
    if (!field->is_repeated()) {
      look(reflection->GetMessage(message, field), path);
      continue;
    }
    for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
      const Message& element = reflection->GetRepeatedMessage(message, field, i);
      const std::string named = NameOf(element);
      look(element, absl::StrCat(path, ".", named.empty() ? absl::StrCat(i) : named));
    }
  }
}

// The part of a path that was walked, for messages.
class Walked {
 public:
  void Add(const std::string& part) { absl::StrAppend(&path_, path_.empty() ? "" : ".", part); }
  std::string With(const std::string& part) const {
    return absl::StrCat(path_, path_.empty() ? "" : ".", part);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

absl::Status Wrong(const std::string& path, const std::string& problem) {
  return absl::InvalidArgumentError(absl::StrCat("--set ", path, ": ", problem));
}

// Sets or, for a list, appends one value.
absl::Status Put(Message* message, const FieldDescriptor* field, const std::string& path,
                 const std::string& value) {
  const Reflection* reflection = message->GetReflection();
  const bool list = field->is_repeated();
  const auto wrong = [&](const std::string& want) {
    return Wrong(path, absl::StrCat("\"", value, "\" is not ", want));
  };
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: {
      int32_t number = 0;
      if (!absl::SimpleAtoi(value, &number)) return wrong("a whole number of 32 bits");
      list ? reflection->AddInt32(message, field, number) : reflection->SetInt32(message, field, number);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_INT64: {
      int64_t number = 0;
      if (!absl::SimpleAtoi(value, &number)) return wrong("a whole number of 64 bits");
      list ? reflection->AddInt64(message, field, number) : reflection->SetInt64(message, field, number);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_UINT64: {
      uint64_t number = 0;
      if (!absl::SimpleAtoi(value, &number)) return wrong("a whole number from 0 of 64 bits");
      list ? reflection->AddUInt64(message, field, number) : reflection->SetUInt64(message, field, number);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      double number = 0;
      if (!absl::SimpleAtod(value, &number) || !std::isfinite(number)) return wrong("a finite number");
      list ? reflection->AddDouble(message, field, number) : reflection->SetDouble(message, field, number);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_BOOL: {
      bool flag = false;
      if (!absl::SimpleAtob(value, &flag)) return wrong("true or false");
      list ? reflection->AddBool(message, field, flag) : reflection->SetBool(message, field, flag);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_STRING:
      list ? reflection->AddString(message, field, value) : reflection->SetString(message, field, value);
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_ENUM: {
      const auto* choice = field->enum_type()->FindValueByName(value);
      if (choice == nullptr || choice->number() == 0) {
        std::vector<std::string> names;
        for (int i = 0; i < field->enum_type()->value_count(); ++i) {
          if (field->enum_type()->value(i)->number() != 0)
            names.push_back(field->enum_type()->value(i)->name());
        }
        return wrong(absl::StrCat("one of ", absl::StrJoin(names, ", ")));
      }
      list ? reflection->AddEnum(message, field, choice) : reflection->SetEnum(message, field, choice);
      return absl::OkStatus();
    }
    default:
      return Wrong(path, absl::StrCat("fields of type ", field->type_name(), " cannot be set"));
  }
}

absl::Status Assign(Message* message, const FieldDescriptor* field, const std::string& path,
                    const std::string& value) {
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    return Wrong(path,
                 absl::StrCat("is a message; set one of its fields: ", FieldNames(*field->message_type())));
  }
  if (!field->is_repeated()) {
    return Put(message, field, path, value);
  }
  message->GetReflection()->ClearField(message, field);
  // 1,2 or, as in a file, [1, 2] and ["a", "b"].
  const bool brackets = absl::StartsWith(value, "[") && absl::EndsWith(value, "]") && value.size() >= 2;
  const std::string list = brackets ? value.substr(1, value.size() - 2) : value;
  if (absl::StripAsciiWhitespace(list).empty()) {
    return absl::OkStatus();
  }
  for (const std::string& piece : std::vector<std::string>(absl::StrSplit(list, ','))) {
    std::string part(absl::StripAsciiWhitespace(piece));
    if (brackets && part.size() >= 2 && part.front() == '"' && part.back() == '"') {
      part = part.substr(1, part.size() - 2);
    }
    ROPELAB_RETURN_IF_ERROR(Put(message, field, path, part));
  }
  return absl::OkStatus();
}

// The element that `rest` begins with, whose part of the path is then cut from `rest`.
absl::StatusOr<Message*> Element(Message* message, const FieldDescriptor* field, std::string* rest,
                                 Walked* walked) {
  const Reflection* reflection = message->GetReflection();
  const int size = reflection->FieldSize(*message, field);
  std::vector<std::string> names;
  int found = -1;
  std::string part;
  for (int i = 0; i < size; ++i) {
    const std::string name = NameOf(reflection->GetRepeatedMessage(*message, field, i));
    if (name.empty()) continue;
    names.push_back(name);
    if (name.size() > part.size() && (*rest == name || absl::StartsWith(*rest, name + "."))) {
      found = i;
      part = name;
    }
  }
  if (found < 0) {
    part = rest->substr(0, rest->find('.'));
    int32_t index = 0;
    if (absl::SimpleAtoi(part, &index) && index >= 0 && index < size) found = index;
  }
  if (found < 0) {
    const std::string there =
        size == 0 ? "it is empty, and elements are written in the file"
                  : absl::StrCat("it has elements 0 to ", size - 1,
                                 names.empty() ? "" : absl::StrCat(", named ", absl::StrJoin(names, ", ")));
    return Wrong(walked->With(part),
                 absl::StrCat("the list ", walked->path(), " has no element \"", part, "\": ", there));
  }
  walked->Add(part);
  *rest = rest->size() > part.size() ? rest->substr(part.size() + 1) : "";
  return reflection->MutableRepeatedMessage(message, field, found);
}

absl::Status Walk(Message* message, std::string rest, const std::string& value, Walked walked) {
  const std::string part = rest.substr(0, rest.find('.'));
  const Descriptor& descriptor = *message->GetDescriptor();
  const FieldDescriptor* field = descriptor.FindFieldByName(part);
  if (field == nullptr) {
    std::vector<std::string> elsewhere;
    FindBelow(*message, part, walked.With(""), &elsewhere);
    return Wrong(
        walked.With(part),
        absl::StrCat("there is no field \"", part, "\"", walked.path().empty() ? "" : " in " + walked.path(),
                     elsewhere.empty() ? "" : "; is this meant: " + absl::StrJoin(elsewhere, ", ") + "?",
                     elsewhere.empty() ? "; fields there: " : " Fields there: ", FieldNames(descriptor)));
  }
  walked.Add(part);
  rest = rest.size() > part.size() ? rest.substr(part.size() + 1) : "";
  if (rest.empty()) {
    ROPELAB_RETURN_IF_ERROR(Assign(message, field, walked.path(), value));
    const std::string other = part == "model" ? "models" : part == "models" ? "model" : "";
    if (const FieldDescriptor* replaced = descriptor.FindFieldByName(other);
        replaced != nullptr && !value.empty()) {
      message->GetReflection()->ClearField(message, replaced);
    }
    return absl::OkStatus();
  }
  if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
    return Wrong(
        walked.With(rest),
        absl::StrCat(walked.path(), " is a value and has no parts",
                     field->is_repeated() ? "; set the whole list, values separated by commas" : ""));
  }
  if (field->is_repeated()) {
    ROPELAB_ASSIGN_OR_RETURN(Message * element, Element(message, field, &rest, &walked));
    if (rest.empty()) {
      return Wrong(walked.path(), absl::StrCat("is a message; set one of its fields: ",
                                               FieldNames(*element->GetDescriptor())));
    }
    return Walk(element, rest, value, walked);
  }
  const Reflection* reflection = message->GetReflection();
  if (const auto* choice = field->real_containing_oneof(); choice != nullptr) {
    const FieldDescriptor* made = reflection->GetOneofFieldDescriptor(*message, choice);
    if (made != nullptr && made != field) {
      return Wrong(walked.path(), absl::StrCat("the spec has ", made->name(), " in this place, which ", part,
                                               " would replace: change the file instead"));
    }
  }
  return Walk(reflection->MutableMessage(message, field), rest, value, walked);
}

}  // namespace

absl::Status SetField(const std::string& assignment, Message* message) {
  const size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0) {
    return Wrong(assignment, "is not path=value");
  }
  // On a copy: a path that is wrong halfway must not leave new empty messages behind.
  std::unique_ptr<Message> changed(message->New());
  changed->CopyFrom(*message);
  ROPELAB_RETURN_IF_ERROR(
      Walk(changed.get(), assignment.substr(0, equals), assignment.substr(equals + 1), Walked()));
  message->GetReflection()->Swap(message, changed.get());
  return absl::OkStatus();
}

}  // namespace ropelab::client
