// Which RoPE pairs a frequency analysis leaves unrotated. EXPERIMENTS.md section 4.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/experiments/experiment.h"

namespace ropelab::experiments {

// Pairs [first, last], from 1, fastest first; none when first > last.
struct FrequencyBand {
  const char* name;  // "high", "medium", "low"
  int64_t first = 0, last = 0;
  int64_t size() const { return last - first + 1; }
};
// The thirds of `pairs` pairs: high ends at floor(n/3), medium at floor(2n/3).
std::vector<FrequencyBand> BandsOf(int64_t pairs);

// The pairs of a band that are removed, ascending: six, or max(1, floor(6n/64 + 1/2)) under PROPORTIONAL,
// spread evenly from its first to its last; a band that has no more is taken whole. One pair alone is the
// band's first.
std::vector<int32_t> PairsOfBand(const FrequencyBand& band, int64_t pairs, v1::PerBand::Value per_band);

// "1 5 9", as result tables write a list.
std::string RemovedText(const std::vector<int32_t>& pairs);

struct NamedRemoval {
  std::string band;            // "high", "medium", "low", "list" or "pair"
  std::vector<int32_t> pairs;  // ascending; never empty
  size_t list = 0;             // its place in RemovalPlan::lists
};
struct RemovalPlan {
  std::vector<NamedRemoval> removals;
  // What is measured, each list once. The first is empty, the score as it is; without removals there is none.
  std::vector<std::vector<int32_t>> lists;
  struct BandCount {
    FrequencyBand band;
    int64_t removed = 0;  // pairs; 0: the band is empty
  };
  std::vector<BandCount> bands;  // all three, where the spec asks for bands
};
// Of a resolved analysis, for heads of `pairs` pairs.
RemovalPlan RemovalsOf(const v1::FrequencyAnalysis& analysis, int64_t pairs);

}  // namespace ropelab::experiments
