#pragma once

#include <string>

namespace ropelab {

std::string Version();  // "0.1.0"
std::string
GitCommit();          // as built; "unknown" outside a checkout, "+changes" after it when the tree was edited
std::string Build();  // "ropelab 0.1.0 (0123abcd)"

}  // namespace ropelab
