// Which values protobuf's JSON parser takes for a field. Pure.
#pragma once

#include <string>

#include "google/protobuf/descriptor.h"

namespace ropelab::client {

// What belongs where the field's value stands, as a part of a sentence: "a number belongs there".
std::string Wanted(const google::protobuf::FieldDescriptor& field);

// A number or true may stand in quotation marks, and an enumeration's value as its number.
bool TakesText(const google::protobuf::FieldDescriptor& field, const std::string& text);
bool TakesNumber(const google::protobuf::FieldDescriptor& field, double number);
bool TakesBool(const google::protobuf::FieldDescriptor& field);

}  // namespace ropelab::client
