// What several tests together allow to be said.
#pragma once

#include <span>
#include <vector>

namespace ropelab::statistics {

// Benjamini and Hochberg's (1995) adjusted p of each p, in their order: at or below 0.05 where the false
// discovery rate allows the rejection. Equals statsmodels' multipletests(method="fdr_bh").
std::vector<double> BenjaminiHochberg(std::span<const double> p);

}  // namespace ropelab::statistics
