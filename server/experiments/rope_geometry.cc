#include "server/experiments/rope_geometry.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/experiments/cost.h"

namespace ropelab::experiments {
namespace {

constexpr int64_t kDefaultHeadDim = 8;  // the demo's
constexpr int64_t kLargestHeadDim = 1024;
constexpr double kDefaultBase = 10000;
constexpr int64_t kDefaultPositions = 16;
constexpr int64_t kMostPositions = 4096;  // the matrix is an artifact of 128 MiB then
constexpr int64_t kDefaultNormPositions[] = {0, 1, 7, 100, 5000};
constexpr int kMostNormPositions = 4096;
constexpr int64_t kFurthestNormPosition = int64_t{1} << 31;

std::string At(const std::string& field) {
  return absl::StrCat("rope_geometry.", field);
}

void CheckVectors(const v1::RopeGeometry& geometry, Problems& problems) {
  if (geometry.query_size() == 0 && geometry.key_size() == 0) {
    return;  // drawn from the seed
  }
  for (const auto& [field, values] : {std::pair<const char*, int>("query", geometry.query_size()),
                                      std::pair<const char*, int>("key", geometry.key_size())}) {
    if (values != geometry.head_dim()) {
      problems.Add(At(field), absl::StrCat(values, " values"),
                   absl::StrCat("give exactly head_dim = ", geometry.head_dim(),
                                " values, or leave query and key both out to have them drawn"));
    }
  }
}

void CheckNormPositions(v1::RopeGeometry& geometry, Problems& problems) {
  if (geometry.norm_positions_size() == 0) {
    for (const int64_t position : kDefaultNormPositions) {
      geometry.add_norm_positions(position);
    }
  }
  if (geometry.norm_positions_size() > kMostNormPositions) {
    problems.Add(At("norm_positions"), absl::StrCat(geometry.norm_positions_size(), " positions"),
                 absl::StrCat("are too many; at most ", kMostNormPositions));
    return;
  }
  auto& positions = *geometry.mutable_norm_positions();
  for (int i = 0; i < positions.size(); ++i) {
    if (positions[i] < 0 || positions[i] > kFurthestNormPosition) {
      problems.Add(At(absl::StrCat("norm_positions[", i, "]")), absl::StrCat(positions[i]),
                   absl::StrCat("a position is 0 to ", kFurthestNormPosition));
    }
  }
  std::sort(positions.begin(), positions.end());  // their order moves nothing
  const auto twice = std::adjacent_find(positions.begin(), positions.end());
  if (twice != positions.end()) {
    problems.Add(At("norm_positions"), absl::StrCat(*twice), "stands there twice; name each position once");
  }
}

void ResolveDefaults(v1::RopeGeometry& geometry) {
  if (!geometry.has_head_dim()) {
    geometry.set_head_dim(kDefaultHeadDim);
  }
  if (!geometry.has_base()) {
    geometry.set_base(kDefaultBase);
  }
  if (!geometry.has_positions()) {
    geometry.set_positions(kDefaultPositions);
  }
  if (!geometry.has_layout()) {
    geometry.set_layout(v1::PairLayout::INTERLEAVED);
  }
  if (!geometry.has_content()) {
    geometry.set_content(v1::Content::REPEATED);
  }
}

}  // namespace

void RopeGeometryExperiment::Resolve(v1::ExperimentSpec& spec, const Facts&, Problems& problems) const {
  v1::RopeGeometry& geometry = *spec.mutable_rope_geometry();
  ResolveDefaults(geometry);
  if (geometry.head_dim() < 2 || geometry.head_dim() > kLargestHeadDim || geometry.head_dim() % 2 != 0) {
    problems.Add(At("head_dim"), absl::StrCat(geometry.head_dim()),
                 absl::StrCat("must be an even number, 2 to ", kLargestHeadDim));
  }
  if (!(geometry.base() > 1)) {
    problems.Add(At("base"), absl::StrCat(geometry.base()), "must be above 1, so that frequencies fall");
  }
  if (geometry.positions() < 2 || geometry.positions() > kMostPositions) {
    problems.Add(At("positions"), absl::StrCat(geometry.positions()),
                 absl::StrCat("must be 2 to ", kMostPositions));
  }
  CheckVectors(geometry, problems);
  CheckNormPositions(geometry, problems);
  if (spec.seeds_size() > 1) {
    problems.Add("seeds", absl::StrCat(spec.seeds_size(), " seeds"),
                 "rope_geometry takes one seed; submit once for each");
  }
}

bool DrawsFromSeed(const v1::RopeGeometry& geometry) {
  return geometry.query_size() == 0 || geometry.content() != v1::Content::REPEATED;
}

std::vector<double> FrequencyLadder(int64_t head_dim, double base) {
  std::vector<double> theta;
  for (int64_t pair = 0; pair < head_dim / 2; ++pair) {
    theta.push_back(std::pow(base, -2.0 * static_cast<double>(pair) / static_cast<double>(head_dim)));
  }
  return theta;
}

absl::StatusOr<std::optional<StagePlan>> RopeGeometryExperiment::Plan(const v1::ExperimentSpec& spec,
                                                                      const Context&, int64_t stage,
                                                                      StageReadings&) const {
  if (stage > 1) {
    return std::optional<StagePlan>();
  }
  const v1::RopeGeometry& geometry = spec.rope_geometry();
  PlannedTask task;
  v1::RopeGeometryFigures& figures = *task.measurement.mutable_rope_geometry();
  figures.set_head_dim(geometry.head_dim());
  for (const double theta : FrequencyLadder(geometry.head_dim(), geometry.base())) {
    figures.add_theta(theta);
  }
  figures.set_positions(geometry.positions());
  figures.set_layout(geometry.layout());
  *figures.mutable_query() = geometry.query();
  *figures.mutable_key() = geometry.key();
  *figures.mutable_norm_positions() = geometry.norm_positions();
  figures.set_content(geometry.content());
  if (DrawsFromSeed(geometry)) {
    figures.set_seed(
        spec.seeds(0));  // only where it moves something: else equal work would have unequal keys
  }
  StagePlan plan;
  plan.push_back(std::move(task));
  return std::optional<StagePlan>(std::move(plan));
}

v1::Estimate RopeGeometryExperiment::Cost(const v1::ExperimentSpec& spec, const Facts&) const {
  const v1::RopeGeometry& geometry = spec.rope_geometry();
  const int64_t cells = geometry.positions() * geometry.positions();
  v1::Estimate estimate;
  estimate.set_tasks(1);
  estimate.set_reading_bytes(cells * 8 + 1024);
  estimate.set_result_bytes(cells * 8 + 1024);
  SetDeviceSeconds(8.0 * static_cast<double>(cells * geometry.head_dim()), estimate);
  return estimate;
}

}  // namespace ropelab::experiments
