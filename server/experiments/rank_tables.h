// The result tables of a rank analysis: spectra, norms, statistics and, over the vocabulary, alignment and
// the cosines in series. A number that is not finite is null.
#pragma once

#include <string>
#include <vector>

#include "server/experiments/rank_readings.h"

namespace ropelab::experiments {

// `groups` as ReadRanks gives them; the table `series` and `alignment` where they hold a vocabulary.
std::vector<Table> RankTables(const std::vector<RankGroup>& groups, const std::string& numerics_class);

// Rows cosine.W_Q.L0H3 and cosine.W_K.L0H3 for every head of layer 0: x is a bin's centre, y the tokens in
// it. The seed moves none of them, so they stand once per model. Beyond 100 000 rows SQL holds those of the
// dominant heads.
Table CosineSeries(const std::vector<RankGroup>& groups, const std::string& numerics_class);

}  // namespace ropelab::experiments
