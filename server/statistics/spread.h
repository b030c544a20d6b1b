// Mean and standard deviation of a few figures, such as those of several seeds.
#pragma once

#include <optional>
#include <span>

namespace ropelab::statistics {

struct Spread {
  double mean = 0;
  std::optional<double> sd;  // ddof 1; empty of fewer than two values
};
// Of n > 0 values, summed in their order.
Spread SpreadOf(std::span<const double> values);

}  // namespace ropelab::statistics
