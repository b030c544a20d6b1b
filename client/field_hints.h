// What a spec could have said where it names something that there is not. Pure.
#pragma once

#include <string>

#include "google/protobuf/descriptor.h"

namespace ropelab::client {

// " Fields there: name, ..."; empty where there are none.
std::string FieldsOf(const google::protobuf::Descriptor& type);

// " Is "seeds" meant?", or else where the name stands one level below " It stands inside detection.", and
// then FieldsOf.
std::string HintOf(const google::protobuf::Descriptor& type, const std::string& unknown);

// "FLOAT32, BFLOAT16": without the value 0, which a spec says by leaving the field out.
std::string ValuesOf(const google::protobuf::EnumDescriptor& type);

}  // namespace ropelab::client
