// The readings of a frequency analysis, merged: what its fit stage and its tables are made of.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/experiments/frequency_groups.h"
#include "server/experiments/prompt_stages.h"
#include "server/statistics/moments.h"

namespace ropelab::experiments {

// InP of one query row against all keys up to it.
struct HeatMap {
  std::vector<double> inp;       // [pairs, row]
  std::vector<double> std;       // [pairs], over the keys, ddof 0
  std::vector<int64_t> prompts;  // [pairs]
};

// Of one head, over all prompts: sums while they are read, then means. Pairs fastest first.
struct HeadMeasures {
  int64_t prompts = 0;
  std::vector<double> theta;       // rad/token
  double attention_factor = 1;     // that RoPE multiplies query and key with
  std::vector<double> query, key;  // before RoPE; [pairs, 2]: lower-half and upper-half dimension
  std::vector<double> mean_inp, mean_abs_inp;
  std::vector<double> inp_at_lag;           // empty: the head has no offset
  std::map<int64_t, HeatMap> heat;          // by row, from 1
  std::vector<statistics::Moments> scores;  // of the removal plan's lists
  int64_t fits = 0;                         // prompts of the three below
  double r2 = 0, r2_centred = 0, eta2 = 0;  // NaN: undefined on a prompt
};
struct FrequencyMeasures {
  std::vector<HeadMeasures> heads;  // as the group has them
};

// What is kept of the profile stage: all of it, or what the fit stage needs.
enum class FrequencyReading { kAll, kMeansAlone };

// The profile stage, means over the prompts; one entry per group. `found` knows the prompts. INTERNAL when
// the readings are not those of the plan, or not of every prompt; DATA_LOSS for a number that is not finite;
// FAILED_PRECONDITION where prompts of different lengths turn by different frequencies.
absl::StatusOr<std::vector<FrequencyMeasures>> ReadProfiles(const v1::ExperimentSpec& spec,
                                                            const std::vector<FrequencyGroup>& groups,
                                                            const FoundPrompts& found,
                                                            StageReadings& readings, FrequencyReading what);
// The fit stage, into `measures`. INTERNAL as above.
absl::Status ReadFits(const v1::ExperimentSpec& spec, const std::vector<FrequencyGroup>& groups,
                      const FoundPrompts& found, StageReadings& readings,
                      std::vector<FrequencyMeasures>& measures);

}  // namespace ropelab::experiments
