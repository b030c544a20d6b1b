#include "server/statistics/mcnemar.h"

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>

namespace ropelab::statistics {

double McNemarExact(int64_t only_first, int64_t only_second) {
  const int64_t discordant = only_first + only_second;
  if (discordant == 0) {
    return 1;
  }
  const boost::math::binomial distribution(static_cast<double>(discordant), 0.5);
  const double tail = boost::math::cdf(distribution, static_cast<double>(std::min(only_first, only_second)));
  return std::min(1.0, 2 * tail);
}

}  // namespace ropelab::statistics
