// What several seeds, and several models, say together.
#pragma once

#include <string>
#include <vector>

#include "server/experiments/utility_statistics.h"

namespace ropelab::experiments {

struct PlacedStatistic {
  StatisticsPlace place;
  std::string name;
  StatisticsRow row;
};

// Of experiments with several seeds: for every model, checkpoint, detector, threshold and name two rows
// without a seed, the mean over the seeds under the same name (its p is the mean of p) and under name + "_sd"
// their SD (ddof 1). n: the seeds that define a value; undefined where none does, the SD where fewer than two
// do. Nothing is added where every row has the same seed.
void AddSeedSummaries(std::vector<PlacedStatistic>& statistics);

// Beside every row of p_centred (also those over seeds) a row p_bh: its p adjusted by Benjamini and Hochberg
// over the models that define one at the same checkpoint, detector, threshold and seed; n: those models.
void AddFalseDiscovery(std::vector<PlacedStatistic>& statistics);

}  // namespace ropelab::experiments
