#include <bit>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "server/experiments/frequency_tables.h"

namespace ropelab::experiments {
namespace {

// Little-endian, as safetensors wants it.
void AppendWord(uint64_t word, std::string& to) {
  for (int byte = 0; byte < 8; ++byte) {
    to.push_back(static_cast<char>(word >> (8 * byte) & 0xff));
  }
}

}  // namespace

std::string HeatMapsFileName(const FrequencyGroup& group, size_t groups) {
  return groups == 1 ? "heat_maps.safetensors"
                     : absl::StrCat("heat_maps.", group.label, ".", group.seed, ".safetensors");
}

std::string HeatMapsFile(const FrequencyGroup& group, const FrequencyMeasures& measures) {
  nlohmann::ordered_json header;
  std::string data;
  for (size_t h = 0; h < group.heads.size(); ++h) {
    for (const auto& [row, map] : measures.heads[h].heat) {
      const size_t begin = data.size();
      for (const double value : map.inp) {
        AppendWord(std::bit_cast<uint64_t>(value), data);
      }
      header[absl::StrCat(FrequencyHeadName(group.heads[h]), ".row", row)] = {
          {"dtype", "F64"}, {"shape", {group.pairs(), row}}, {"data_offsets", {begin, data.size()}}};
    }
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // so that the numbers are aligned
  std::string file;
  AppendWord(text.size(), file);
  file += text;
  return file + data;
}

}  // namespace ropelab::experiments
