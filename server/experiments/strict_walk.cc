#include "server/experiments/strict_walk.h"

#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/printable.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/unknown_field_set.h"

namespace ropelab::experiments {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::UnknownFieldSet;

std::string Join(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : absl::StrCat(prefix, ".", name);
}

std::string NamesOf(const EnumDescriptor* type) {
  std::vector<std::string> names;
  for (int i = 0; i < type->value_count(); ++i) {
    if (type->value(i)->number() != 0) {
      names.push_back(type->value(i)->name());
    }
  }
  return absl::StrJoin(names, ", ");
}

void CheckEnum(const EnumDescriptor* type, int number, const std::string& path, Problems& problems) {
  if (number == 0) {
    problems.Add(path, "UNSPECIFIED",
                 absl::StrCat("leave the field out for its default, or say one of ", NamesOf(type)));
  } else if (type->FindValueByNumber(number) == nullptr) {
    problems.Add(path, absl::StrCat(number),
                 absl::StrCat("is the number of no value known here; say one of ", NamesOf(type)));
  }
}

void CheckString(const std::string& text, const std::string& path, Problems& problems) {
  if (text.size() > kLongestString) {
    problems.Add(path, absl::StrCat(text.size(), " bytes"),
                 absl::StrCat("is longer than a text may be; at most ", kLongestString, " bytes"));
  } else if (!IsUtf8(text)) {
    problems.Add(path, "(bytes that are not text)", "is not UTF-8; write it as UTF-8");
  } else if (text.find('\0') != std::string::npos) {
    problems.Add(path, "(text with a NUL)", "holds a NUL character; take it out");
  }
}

void CheckNumber(double number, const std::string& path, Problems& problems) {
  if (!std::isfinite(number)) {
    problems.Add(path, absl::StrFormat("%g", number), "is not a finite number; give one");
  }
}

// `index` is -1 for a singular field.
void CheckValue(const Message& message, const FieldDescriptor* field, int index, const std::string& path,
                Problems& problems) {
  const Reflection* reflection = message.GetReflection();
  const bool one = index < 0;
  std::string scratch;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_ENUM:
      CheckEnum(field->enum_type(),
                one ? reflection->GetEnumValue(message, field)
                    : reflection->GetRepeatedEnumValue(message, field, index),
                path, problems);
      break;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      CheckNumber(
          one ? reflection->GetDouble(message, field) : reflection->GetRepeatedDouble(message, field, index),
          path, problems);
      break;
    case FieldDescriptor::CPPTYPE_FLOAT:
      CheckNumber(
          one ? reflection->GetFloat(message, field) : reflection->GetRepeatedFloat(message, field, index),
          path, problems);
      break;
    case FieldDescriptor::CPPTYPE_STRING:
      CheckString(one ? reflection->GetStringReference(message, field, &scratch)
                      : reflection->GetRepeatedStringReference(message, field, index, &scratch),
                  path, problems);
      break;
    case FieldDescriptor::CPPTYPE_MESSAGE:
      StrictWalk(one ? reflection->GetMessage(message, field)
                     : reflection->GetRepeatedMessage(message, field, index),
                 path, "", problems);
      break;
    default:
      break;  // every integer and bool is a value; ranges are the kinds' own rules
  }
}

}  // namespace

void StrictWalk(const Message& message, const std::string& prefix, const std::string& except,
                Problems& problems) {
  const Reflection* reflection = message.GetReflection();
  std::vector<const FieldDescriptor*> present;
  reflection->ListFields(message, &present);
  for (const FieldDescriptor* field : present) {
    if (field->name() == except) {
      continue;
    }
    const std::string path = Join(prefix, field->name());
    if (!field->is_repeated()) {
      CheckValue(message, field, -1, path, problems);
      continue;
    }
    const int count = reflection->FieldSize(message, field);
    for (int i = 0; i < count; ++i) {
      CheckValue(message, field, i, absl::StrCat(path, "[", i, "]"), problems);
    }
  }
  const UnknownFieldSet& unknown = reflection->GetUnknownFields(message);
  for (int i = 0; i < unknown.field_count(); ++i) {
    const int number = unknown.field(i).number();
    problems.Add(Join(prefix, absl::StrCat("#", number)), "",
                 absl::StrCat("this version knows no field number ", number, " of ",
                              message.GetDescriptor()->name(), "; the client may be newer than the server"));
  }
}

}  // namespace ropelab::experiments
