#include "client/field_values.h"

#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/field_hints.h"

namespace ropelab::client {
namespace {

using google::protobuf::FieldDescriptor;

// The bounds of whole numbers, the upper one outside; both 0 for a field that takes none.
struct WholeRange {
  double first = 0;
  double beyond = 0;
};

WholeRange WholeRangeOf(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_ENUM:
      return {-0x1p31, 0x1p31};
    case FieldDescriptor::CPPTYPE_INT64:
      return {-0x1p63, 0x1p63};
    case FieldDescriptor::CPPTYPE_UINT32:
      return {0, 0x1p32};
    case FieldDescriptor::CPPTYPE_UINT64:
      return {0, 0x1p64};
    default:
      return {};
  }
}

bool IsReal(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE ||
         field.cpp_type() == FieldDescriptor::CPPTYPE_FLOAT;
}

}  // namespace

std::string Wanted(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return absl::StrCat("it holds fields of its own: \"", field.name(), "\": { ... }.",
                          FieldsOf(*field.message_type()));
    case FieldDescriptor::CPPTYPE_ENUM:
      return absl::StrCat("say one of ", ValuesOf(*field.enum_type()));
    case FieldDescriptor::CPPTYPE_STRING:
      return "a text in quotation marks belongs there";
    case FieldDescriptor::CPPTYPE_BOOL:
      return "true or false belongs there";
    default:
      break;
  }
  if (IsReal(field)) {
    return "a number belongs there";
  }
  const WholeRange range = WholeRangeOf(field);
  return absl::StrFormat("a whole number%s below 2^%.0f belongs there", range.first == 0 ? " from 0" : "",
                         std::log2(range.beyond));
}

bool TakesText(const FieldDescriptor& field, const std::string& text) {
  int whole = 0;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return false;
    case FieldDescriptor::CPPTYPE_STRING:
      return true;
    case FieldDescriptor::CPPTYPE_BOOL:
      return text == "true" || text == "false";
    case FieldDescriptor::CPPTYPE_ENUM:
      return field.enum_type()->FindValueByName(text) != nullptr ||
             (absl::SimpleAtoi(text, &whole) && field.enum_type()->FindValueByNumber(whole) != nullptr);
    default:
      break;
  }
  double number = 0;
  return absl::SimpleAtod(text, &number) && TakesNumber(field, number);
}

bool TakesNumber(const FieldDescriptor& field, double number) {
  const WholeRange range = WholeRangeOf(field);
  return IsReal(field) || (number == std::floor(number) && number >= range.first && number < range.beyond);
}

bool TakesBool(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL;
}

}  // namespace ropelab::client
