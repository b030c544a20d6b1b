#include "server/experiments/maps_accumulator.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace ropelab::experiments {
namespace {

std::string NameOf(const MapsAccumulator::Head& head) {
  return absl::StrCat("the map of L", head.first, "H", head.second);
}

// values * prompts on top of sums[first, ...); a first piece makes room. False where it does not fit.
bool AddPiece(const google::protobuf::RepeatedField<double>& values, int64_t first, int64_t prompts,
              std::vector<double>& sums) {
  const size_t end = static_cast<size_t>(first + values.size());
  if (first < 0 || static_cast<size_t>(first) > sums.size()) {
    return false;
  }
  if (sums.size() < end) {
    sums.resize(end);
  }
  for (int i = 0; i < values.size(); ++i) {
    sums[static_cast<size_t>(first + i)] += values.Get(i) * static_cast<double>(prompts);
  }
  return true;
}

}  // namespace

absl::Status MapsAccumulator::Add(const v1::MapBlock& block) {
  const Head head = {block.layer(), block.head()};
  HeadMap& map = sums_[head];
  if (map.size == 0) {
    map.size = block.size();
  }
  if (block.prompts() < 1 || block.size() < 1 || block.size() != map.size ||
      !AddPiece(block.cells(), block.first_cell(), block.prompts(), map.cells) ||
      !AddPiece(block.diagonals(), block.first_offset(), block.prompts(), map.diagonals)) {
    return absl::InternalError(absl::StrCat(NameOf(head), " has a piece that does not fit"));
  }
  if (block.cells_size() > 0 && block.first_cell() == 0) {
    map.prompts += block.prompts();
  }
  return absl::OkStatus();
}

absl::Status MapsAccumulator::CheckComplete(int64_t prompts) const {
  for (const auto& [head, map] : sums_) {
    if (map.prompts != prompts || static_cast<int64_t>(map.cells.size()) != map.size * map.size ||
        static_cast<int64_t>(map.diagonals.size()) < map.size) {
      return absl::InternalError(absl::StrCat(NameOf(head), " is not whole: ", map.prompts, " of ", prompts,
                                              " prompts, ", map.cells.size(), " cells of ", map.size,
                                              " a side, ", map.diagonals.size(), " sub-diagonals"));
    }
    for (const double mean : map.diagonals) {
      if (!std::isfinite(mean)) {
        return absl::DataLossError(absl::StrCat(NameOf(head), " has a mean that is not a finite number"));
      }
    }
  }
  return absl::OkStatus();
}

std::map<MapsAccumulator::Head, HeadMap> MapsAccumulator::Means() const {
  std::map<Head, HeadMap> means = sums_;
  for (auto& [head, map] : means) {
    for (std::vector<double>* values : {&map.cells, &map.diagonals}) {
      for (double& value : *values) {
        value /= static_cast<double>(map.prompts);
      }
    }
  }
  return means;
}

}  // namespace ropelab::experiments
