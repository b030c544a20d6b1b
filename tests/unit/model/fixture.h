// Where a reference checkpoint lies.
#pragma once

#include <cstdlib>
#include <string>

namespace ropelab::model {

inline std::string Fixture(const std::string& name) {
  const char* root = std::getenv("ROPELAB_FIXTURES");
  return std::string(root != nullptr ? root : ROPELAB_FIXTURES_DEFAULT) + "/models/" + name;
}

}  // namespace ropelab::model
