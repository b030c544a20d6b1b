// Whether two conditions differ on the same samples.
#pragma once

#include <cstdint>

namespace ropelab::statistics {

// Exact two-sided p of McNemar's test: under the null each discordant sample falls on either side with
// probability one half. The arguments count the samples that are correct under one condition alone; none at
// all: 1. Neither is negative.
double McNemarExact(int64_t only_first, int64_t only_second);

}  // namespace ropelab::statistics
