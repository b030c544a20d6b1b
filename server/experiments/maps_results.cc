#include "server/experiments/maps_results.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/experiments/safetensors.h"

namespace ropelab::experiments {
namespace {

constexpr int64_t kSeriesWholeInSql = 100000;        // rows
constexpr int64_t kNearOffsets = 64;                 // what SQL holds of longer ones
constexpr uint64_t kEmptyCell = 0x7ff8000000000000;  // one NaN: their signs and payloads would move bytes

std::string HeadName(const MapsAccumulator::Head& head) {
  return absl::StrCat("L", head.first, "H", head.second);
}

}  // namespace

std::string MapsFileName(const DetectionGroup& group, size_t groups) {
  return groups == 1 ? "maps.safetensors"
                     : absl::StrCat("maps.", group.label, ".", group.seed, ".safetensors");
}

std::string MapsFile(const std::map<MapsAccumulator::Head, HeadMap>& maps) {
  SafetensorsFile file;
  for (const auto& [head, map] : maps) {
    std::vector<double> cells = map.cells, diagonals = map.diagonals;
    for (std::vector<double>* values : {&cells, &diagonals}) {
      std::replace_if(
          values->begin(), values->end(), [](double value) { return std::isnan(value); },
          std::bit_cast<double>(kEmptyCell));
    }
    file.Add(HeadName(head) + ".map", {map.size, map.size}, cells);
    file.Add(HeadName(head) + ".diagonals", {static_cast<int64_t>(diagonals.size())}, diagonals);
  }
  return file.Bytes();
}

void AddMapStatistics(const v1::SlashDetection& detection, const std::vector<DetectionGroup>& groups,
                      const std::string& numerics_class, TableBuilder& statistics) {
  if (!detection.has_maps()) {
    return;
  }
  for (const DetectionGroup& group : groups) {
    const int64_t mapped = static_cast<int64_t>(group.maps.heads());
    const int64_t heads = group.model->config.layers() * group.model->config.query_heads();
    statistics.Text(group.label).Text(group.dtype).Text(numerics_class).Text("mapped_heads");
    statistics.Text(std::nullopt).Text(std::nullopt).Real(std::nullopt).Integer(group.seed);
    statistics.Real(static_cast<double>(mapped)).Real(std::nullopt).Real(std::nullopt).Real(std::nullopt);
    statistics.Integer(heads).Text(std::nullopt);
  }
}

void AddMaps(const v1::SlashDetection& detection, const std::vector<DetectionGroup>& groups,
             const std::string& numerics_class, Results& results) {
  if (!detection.has_maps()) {
    return;
  }
  int64_t rows = 0;
  bool several_seeds = false;
  for (const DetectionGroup& group : groups) {
    several_seeds = several_seeds || group.seed != groups.front().seed;
  }
  TableBuilder series = SeriesTable();
  for (const DetectionGroup& group : groups) {
    const std::map<MapsAccumulator::Head, HeadMap> maps = group.maps.Means();
    if (maps.empty()) {
      continue;
    }
    results.made.push_back({MapsFileName(group, groups.size()), MapsFile(maps)});
    for (const auto& [head, map] : maps) {
      const std::string seed = several_seeds ? absl::StrCat(".seed", group.seed) : "";
      const std::string name = absl::StrCat("diagonal.", HeadName(head), seed);
      for (size_t offset = 0; offset < map.diagonals.size(); ++offset) {
        series.Text(group.label).Text(group.dtype).Text(numerics_class).Text(name);
        series.Real(static_cast<double>(offset)).Real(map.diagonals[offset]);
        if (static_cast<int64_t>(offset) < kNearOffsets) {
          series.KeepLastRowInSql();
        }
        ++rows;
      }
    }
  }
  results.tables.push_back(series.Finish(rows <= kSeriesWholeInSql));
}

}  // namespace ropelab::experiments
