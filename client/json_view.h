// Messages as JSON for scripts: the field names of the proto (snake_case), integers as numbers (protobuf's
// own JSON writes 64-bit ones as strings), enums by name, every field without presence written even when it
// holds its default.
#pragma once

#include <string>

#include "google/protobuf/message.h"
#include "nlohmann/json.hpp"

namespace ropelab::client {

nlohmann::ordered_json ToJson(const google::protobuf::Message& message);

template <typename List>
nlohmann::ordered_json ToJsonArray(const List& messages) {
  nlohmann::ordered_json array = nlohmann::ordered_json::array();
  for (const auto& message : messages) {
    array.push_back(ToJson(message));
  }
  return array;
}

// One line without a line end; bytes that are not UTF-8 are replaced.
std::string JsonLine(const nlohmann::ordered_json& json);
// Indented, with a line end.
std::string JsonText(const nlohmann::ordered_json& json);

}  // namespace ropelab::client
