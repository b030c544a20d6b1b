#include "client/json_view.h"

#include <cmath>

#include "absl/strings/escaping.h"
#include "google/protobuf/descriptor.h"

namespace ropelab::client {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using Json = nlohmann::ordered_json;

Json FromDouble(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

Json FromString(const FieldDescriptor* field, const std::string& value) {
  return field->type() == FieldDescriptor::TYPE_BYTES ? Json(std::string(absl::Base64Escape(value)))
                                                      : Json(value);
}

Json Single(const Message& message, const FieldDescriptor* field) {
  const auto* reflection = message.GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection->GetInt32(message, field);
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection->GetInt64(message, field);
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection->GetUInt32(message, field);
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection->GetUInt64(message, field);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return FromDouble(reflection->GetDouble(message, field));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return FromDouble(reflection->GetFloat(message, field));
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection->GetBool(message, field);
    case FieldDescriptor::CPPTYPE_ENUM:
      return std::string(reflection->GetEnum(message, field)->name());
    case FieldDescriptor::CPPTYPE_STRING:
      return FromString(field, reflection->GetString(message, field));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return ToJson(reflection->GetMessage(message, field));
  }
  return nullptr;
}

Json Element(const Message& message, const FieldDescriptor* field, int i) {
  const auto* reflection = message.GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection->GetRepeatedInt32(message, field, i);
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection->GetRepeatedInt64(message, field, i);
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection->GetRepeatedUInt32(message, field, i);
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection->GetRepeatedUInt64(message, field, i);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return FromDouble(reflection->GetRepeatedDouble(message, field, i));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return FromDouble(reflection->GetRepeatedFloat(message, field, i));
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection->GetRepeatedBool(message, field, i);
    case FieldDescriptor::CPPTYPE_ENUM:
      return std::string(reflection->GetRepeatedEnum(message, field, i)->name());
    case FieldDescriptor::CPPTYPE_STRING:
      return FromString(field, reflection->GetRepeatedString(message, field, i));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return ToJson(reflection->GetRepeatedMessage(message, field, i));
  }
  return nullptr;
}

}  // namespace

Json ToJson(const Message& message) {
  Json object = Json::object();
  const auto* reflection = message.GetReflection();
  const auto* descriptor = message.GetDescriptor();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const FieldDescriptor* field = descriptor->field(i);
    if (field->is_repeated()) {
      Json array = Json::array();
      for (int k = 0; k < reflection->FieldSize(message, field); ++k) {
        array.push_back(Element(message, field, k));
      }
      object[field->name()] = std::move(array);
    } else if (!field->has_presence() || reflection->HasField(message, field)) {
      object[field->name()] = Single(message, field);
    }
  }
  return object;
}

std::string JsonLine(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}
std::string JsonText(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ropelab::client
