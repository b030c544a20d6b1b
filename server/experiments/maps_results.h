// Average attention maps as results: one safetensors artifact per model and seed, with the tensors L0H3.map
// [size, size] and L0H3.diagonals [tokens] in float64, and the sub-diagonals as rows of `series`.
#pragma once

#include <string>
#include <vector>

#include "server/experiments/slash_groups.h"
#include "server/experiments/table_builder.h"

namespace ropelab::experiments {

// What a file of one group is called: "maps.safetensors", or with several groups
// "maps.<model>.<seed>.safetensors".
std::string MapsFileName(const DetectionGroup& group, size_t groups);

// The file's bytes; the same maps give the same bytes.
std::string MapsFile(const std::map<MapsAccumulator::Head, HeadMap>& maps);

// A row `mapped_heads` (n: heads of the model), where the detection asks for maps.
void AddMapStatistics(const v1::SlashDetection& detection, const std::vector<DetectionGroup>& groups,
                      const std::string& numerics_class, TableBuilder& statistics);
// The artifacts and `series`, where the detection asks for maps.
void AddMaps(const v1::SlashDetection& detection, const std::vector<DetectionGroup>& groups,
             const std::string& numerics_class, Results& results);

}  // namespace ropelab::experiments
