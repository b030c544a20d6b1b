// The tables statistics and series of a retrieval detection.
#pragma once

#include <string>
#include <vector>

#include "server/experiments/retrieval_groups.h"

namespace ropelab::experiments {

// docs/experiments/retrieval_detection.md says what each name is. Groups stand model by model, seed by seed.
std::vector<Table> RetrievalStatistics(const v1::RetrievalDetection& detection,
                                       const std::vector<RetrievalGroup>& groups,
                                       const std::string& numerics_class);

// The rope base that a model's frequencies are powers of; empty where scaling bent them.
std::optional<double> RopeBaseOf(const v1::ModelConfig& config);

}  // namespace ropelab::experiments
