// The name that was probably meant by one that there is not.
#pragma once

#include <string>
#include <vector>

namespace ropelab {

// The nearest of `names`, where it is at most two letters (to insert, drop or exchange) and not the whole of
// `unknown` away; of several the first. Empty where none is.
std::string NearestName(const std::string& unknown, const std::vector<std::string>& names);

}  // namespace ropelab
