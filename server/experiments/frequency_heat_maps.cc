#include "absl/strings/str_cat.h"
#include "server/experiments/frequency_tables.h"
#include "server/experiments/safetensors.h"

namespace ropelab::experiments {

std::string HeatMapsFileName(const FrequencyGroup& group, size_t groups) {
  return groups == 1 ? "heat_maps.safetensors"
                     : absl::StrCat("heat_maps.", group.label, ".", group.seed, ".safetensors");
}

std::string HeatMapsFile(const FrequencyGroup& group, const FrequencyMeasures& measures) {
  SafetensorsFile file;
  for (size_t h = 0; h < group.heads.size(); ++h) {
    for (const auto& [row, map] : measures.heads[h].heat) {
      file.Add(absl::StrCat(FrequencyHeadName(group.heads[h]), ".row", row), {group.pairs(), row}, map.inp);
    }
  }
  return file.Bytes();
}

}  // namespace ropelab::experiments
