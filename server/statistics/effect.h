// How far two groups of values lie apart, as if all values were independent.
#pragma once

#include <span>

#include "server/statistics/defined.h"

namespace ropelab::statistics {

// (mean of a - mean of b) / pooled SD, the pooled variance being the squared deviations from each group's own
// mean over (size of a + size of b - 2) (Cohen 1988). Undefined for an empty group, fewer than three values,
// or no spread within the groups.
Defined<double> CohensD(std::span<const double> a, std::span<const double> b);

struct WelchTest {
  double t = 0, degrees = 0;  // of freedom, by Welch and Satterthwaite
  double p = 1;               // two-sided
};
// Undefined where a group has fewer than two values, or neither group has any spread.
Defined<WelchTest> Welch(std::span<const double> a, std::span<const double> b);

}  // namespace ropelab::statistics
