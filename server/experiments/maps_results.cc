#include "server/experiments/maps_results.h"

#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace ropelab::experiments {
namespace {

constexpr int64_t kSeriesWholeInSql = 100000;        // rows
constexpr int64_t kNearOffsets = 64;                 // what SQL holds of longer ones
constexpr uint64_t kEmptyCell = 0x7ff8000000000000;  // one NaN: their signs and payloads would move bytes

void AppendBytes(uint64_t value, std::string& to) {
  for (int shift = 0; shift < 64; shift += 8) {
    to.push_back(static_cast<char>(value >> shift & 0xff));
  }
}

std::string HeadName(const MapsAccumulator::Head& head) {
  return absl::StrCat("L", head.first, "H", head.second);
}

TableBuilder SeriesTable() {
  return TableBuilder("series", WithLeadingColumns({{"name", v1::Column::TEXT, true},
                                                    {"x", v1::Column::REAL, true},
                                                    {"y", v1::Column::REAL, false}}));
}

}  // namespace

std::string MapsFileName(const DetectionGroup& group, size_t groups) {
  return groups == 1 ? "maps.safetensors"
                     : absl::StrCat("maps.", group.label, ".", group.seed, ".safetensors");
}

std::string MapsFile(const std::map<MapsAccumulator::Head, HeadMap>& maps) {
  nlohmann::ordered_json header;
  std::string data;
  const auto add = [&](const std::string& name, std::vector<int64_t> shape,
                       const std::vector<double>& values) {
    const size_t begin = data.size();
    for (const double value : values) {
      AppendBytes(std::bit_cast<uint64_t>(value == value ? value : std::bit_cast<double>(kEmptyCell)), data);
    }
    header[name] = {{"dtype", "F64"}, {"shape", std::move(shape)}, {"data_offsets", {begin, data.size()}}};
  };
  for (const auto& [head, map] : maps) {
    add(HeadName(head) + ".map", {map.size, map.size}, map.cells);
    add(HeadName(head) + ".diagonals", {static_cast<int64_t>(map.diagonals.size())}, map.diagonals);
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // so that the numbers are aligned
  std::string file;
  AppendBytes(text.size(), file);
  return file + text + data;
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
