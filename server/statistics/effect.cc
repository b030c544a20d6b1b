#include "server/statistics/effect.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>

namespace ropelab::statistics {
namespace {

struct Sample {
  double n = 0, mean = 0, squares = 0;  // squared deviations from the mean
};

// Of at least one value.
Sample SampleOf(std::span<const double> values) {
  Sample sample;
  sample.n = static_cast<double>(values.size());
  for (const double value : values) {
    sample.mean += value;
  }
  sample.mean /= sample.n;
  const auto [least, largest] = std::minmax_element(values.begin(), values.end());
  if (*least == *largest) {  // a rounded mean would make equal values seem to vary
    sample.mean = *least;
  }
  for (const double value : values) {
    sample.squares += (value - sample.mean) * (value - sample.mean);
  }
  return sample;
}

}  // namespace

Defined<double> CohensD(std::span<const double> a, std::span<const double> b) {
  if (a.empty() || b.empty()) {
    return Undefined{"one of the two groups is empty"};
  }
  if (a.size() + b.size() < 3) {
    return Undefined{"two values have no pooled standard deviation"};
  }
  const Sample x = SampleOf(a), y = SampleOf(b);
  const double pooled = std::sqrt((x.squares + y.squares) / (x.n + y.n - 2));
  if (!(pooled > 0)) {
    return Undefined{"the values do not vary within the groups"};
  }
  return (x.mean - y.mean) / pooled;
}

Defined<WelchTest> Welch(std::span<const double> a, std::span<const double> b) {
  if (a.size() < 2 || b.size() < 2) {
    return Undefined{"a group has fewer than two values, and so no variance"};
  }
  const Sample x = SampleOf(a), y = SampleOf(b);
  // Squared standard errors of the means.
  const double u = x.squares / (x.n - 1) / x.n, v = y.squares / (y.n - 1) / y.n;
  if (!(u + v > 0)) {
    return Undefined{"the values do not vary within the groups"};
  }
  WelchTest test;
  test.t = (x.mean - y.mean) / std::sqrt(u + v);
  test.degrees = (u + v) * (u + v) / (u * u / (x.n - 1) + v * v / (y.n - 1));
  const boost::math::students_t distribution(test.degrees);
  test.p = 2 * boost::math::cdf(boost::math::complement(distribution, std::abs(test.t)));
  return test;
}

}  // namespace ropelab::statistics
