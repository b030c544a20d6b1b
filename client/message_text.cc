#include "client/message_text.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/printable.h"
#include "google/protobuf/descriptor.h"

namespace ropelab::client {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr size_t kMostShown = 60;

absl::Status Walk(const Message& message, const std::string& prefix);

// `index` is -1 for a singular field.
absl::Status CheckField(const Message& message, const FieldDescriptor* field, int index,
                        const std::string& path) {
  const auto* reflection = message.GetReflection();
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    return Walk(index < 0 ? reflection->GetMessage(message, field)
                          : reflection->GetRepeatedMessage(message, field, index),
                path + ".");
  }
  if (field->type() != FieldDescriptor::TYPE_STRING) {
    return absl::OkStatus();
  }
  std::string scratch;
  const std::string& text = index < 0
                                ? reflection->GetStringReference(message, field, &scratch)
                                : reflection->GetRepeatedStringReference(message, field, index, &scratch);
  return IsUtf8(text)
             ? absl::OkStatus()
             : absl::InvalidArgumentError(absl::StrCat(path, ": \"", ropelab::Printable(text, kMostShown),
                                                       "\" is not UTF-8; write it as UTF-8"));
}

absl::Status Walk(const Message& message, const std::string& prefix) {
  const auto* reflection = message.GetReflection();
  std::vector<const FieldDescriptor*> present;
  reflection->ListFields(message, &present);
  for (const FieldDescriptor* field : present) {
    const std::string path = absl::StrCat(prefix, field->name());
    const int count = field->is_repeated() ? reflection->FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      const absl::Status status = field->is_repeated()
                                      ? CheckField(message, field, i, absl::StrCat(path, "[", i, "]"))
                                      : CheckField(message, field, -1, path);
      if (!status.ok()) {
        return status;
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckTexts(const Message& message) {
  return Walk(message, "");
}

}  // namespace ropelab::client
