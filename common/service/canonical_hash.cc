#include "common/service/canonical_hash.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string_view>
#include <vector>

#include "common/sha256.h"
#include "google/protobuf/descriptor.h"

namespace ropelab {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// One byte per kind of value, so that a 1 and a "1" never hash alike. Stored keys depend on these: never
// renumber.
enum Tag : unsigned char { kInteger = 1, kReal = 2, kText = 3, kMessage = 4 };

class Walk {
 public:
  void Visit(const Message& message) {
    const Reflection& reflection = *message.GetReflection();
    std::vector<const FieldDescriptor*> fields;
    reflection.ListFields(message, &fields);  // those that are present
    std::sort(fields.begin(), fields.end(), [](auto* a, auto* b) { return a->number() < b->number(); });
    PutInteger(static_cast<uint64_t>(fields.size()));
    for (const FieldDescriptor* field : fields) {
      PutInteger(static_cast<uint64_t>(field->number()));
      PutTag(field);
      if (field->is_repeated()) {
        const int count = reflection.FieldSize(message, field);
        PutInteger(static_cast<uint64_t>(count));
        for (int i = 0; i < count; ++i) {
          Element(message, reflection, field, i);
        }
      } else {
        Element(message, reflection, field, -1);
      }
    }
  }

  std::string FinishHex() { return hash_.FinishHex(); }

 private:
  void PutInteger(uint64_t value) {
    char bytes[8];
    for (int i = 0; i < 8; ++i) {
      bytes[i] = static_cast<char>(value >> (8 * i));
    }
    hash_.Update(std::string_view(bytes, sizeof(bytes)));
  }

  void PutText(std::string_view text) {
    PutInteger(text.size());
    hash_.Update(text);
  }

  void PutReal(double value) { PutInteger(value == 0 ? 0 : std::bit_cast<uint64_t>(value)); }

  void PutTag(const FieldDescriptor* field) {
    Tag tag = kInteger;
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_DOUBLE:
      case FieldDescriptor::CPPTYPE_FLOAT:
        tag = kReal;
        break;
      case FieldDescriptor::CPPTYPE_STRING:
        tag = kText;
        break;
      case FieldDescriptor::CPPTYPE_MESSAGE:
        tag = kMessage;
        break;
      default:
        break;
    }
    const char byte = static_cast<char>(tag);
    hash_.Update(std::string_view(&byte, 1));
  }

  // The value of a field, or of its element `index` when that is not negative.
  void Element(const Message& message, const Reflection& reflection, const FieldDescriptor* field,
               int index) {
    const bool single = index < 0;
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return PutInteger(static_cast<uint64_t>(
            static_cast<int64_t>(single ? reflection.GetInt32(message, field)
                                        : reflection.GetRepeatedInt32(message, field, index))));
      case FieldDescriptor::CPPTYPE_INT64:
        return PutInteger(static_cast<uint64_t>(single ? reflection.GetInt64(message, field)
                                                       : reflection.GetRepeatedInt64(message, field, index)));
      case FieldDescriptor::CPPTYPE_UINT32:
        return PutInteger(single ? reflection.GetUInt32(message, field)
                                 : reflection.GetRepeatedUInt32(message, field, index));
      case FieldDescriptor::CPPTYPE_UINT64:
        return PutInteger(single ? reflection.GetUInt64(message, field)
                                 : reflection.GetRepeatedUInt64(message, field, index));
      case FieldDescriptor::CPPTYPE_BOOL:
        return PutInteger(
            (single ? reflection.GetBool(message, field) : reflection.GetRepeatedBool(message, field, index))
                ? 1
                : 0);
      case FieldDescriptor::CPPTYPE_ENUM:
        return PutInteger(static_cast<uint64_t>(
            static_cast<int64_t>(single ? reflection.GetEnumValue(message, field)
                                        : reflection.GetRepeatedEnumValue(message, field, index))));
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return PutReal(single ? reflection.GetDouble(message, field)
                              : reflection.GetRepeatedDouble(message, field, index));
      case FieldDescriptor::CPPTYPE_FLOAT:
        return PutReal(single ? reflection.GetFloat(message, field)
                              : reflection.GetRepeatedFloat(message, field, index));
      case FieldDescriptor::CPPTYPE_STRING:
        return PutText(single ? reflection.GetString(message, field)
                              : reflection.GetRepeatedString(message, field, index));
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return Visit(single ? reflection.GetMessage(message, field)
                            : reflection.GetRepeatedMessage(message, field, index));
    }
  }

  Sha256 hash_;
};

}  // namespace

std::string CanonicalHash(const Message& message) {
  Walk walk;
  walk.Visit(message);
  return walk.FinishHex();
}

}  // namespace ropelab
