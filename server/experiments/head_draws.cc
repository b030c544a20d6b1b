#include "server/experiments/head_draws.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/philox.h"

namespace ropelab::experiments {
namespace {

void Shuffle(uint64_t seed, int64_t draw, std::vector<NamedHead>& heads) {
  Philox philox(seed, Purpose::kRandomHeads, static_cast<uint64_t>(draw));
  philox.Shuffle(std::span<NamedHead>(heads));
}

void SortByPlace(std::vector<NamedHead>& heads) {
  std::sort(heads.begin(), heads.end(), [](const NamedHead& a, const NamedHead& b) {
    return std::tie(a.layer, a.head) < std::tie(b.layer, b.head);
  });
}

std::map<int64_t, int64_t> CountByLayer(const std::vector<NamedHead>& heads) {
  std::map<int64_t, int64_t> counts;
  for (const NamedHead& head : heads) {
    ++counts[head.layer];
  }
  return counts;
}

}  // namespace

std::vector<NamedHead> HeadsOutside(const v1::ModelConfig& config, const std::vector<NamedHead>& avoided) {
  std::set<std::pair<int64_t, int64_t>> places;
  for (const NamedHead& head : avoided) {
    places.insert({head.layer, head.head});
  }
  std::vector<NamedHead> heads;
  for (int64_t layer = 0; layer < config.layers(); ++layer) {
    for (int64_t head = 0; head < config.query_heads(); ++head) {
      if (places.count({layer, head}) == 0) {
        heads.push_back({layer, head, std::nullopt});
      }
    }
  }
  return heads;
}

std::vector<NamedHead> RandomHeads(std::vector<NamedHead> candidates, int64_t count, uint64_t seed,
                                   int64_t draw) {
  Shuffle(seed, draw, candidates);
  candidates.resize(std::min(candidates.size(), static_cast<size_t>(count)));
  SortByPlace(candidates);
  return candidates;
}

std::vector<LayerShortage> ShortagesOf(const std::vector<NamedHead>& compared,
                                       const std::vector<NamedHead>& candidates) {
  std::map<int64_t, int64_t> available = CountByLayer(candidates);
  std::vector<LayerShortage> shortages;
  for (const auto& [layer, needed] : CountByLayer(compared)) {
    if (available[layer] < needed) {
      shortages.push_back({layer, needed, available[layer]});
    }
  }
  return shortages;
}

std::string DescribeShortages(const std::vector<LayerShortage>& shortages) {
  return absl::StrJoin(shortages, ", ", [](std::string* out, const LayerShortage& shortage) {
    absl::StrAppend(out, "layer ", shortage.layer, " has ", shortage.available, " of ", shortage.needed,
                    " heads");
  });
}

std::vector<NamedHead> LayerMatchedHeads(const std::vector<NamedHead>& compared,
                                         std::vector<NamedHead> candidates, uint64_t seed, int64_t draw) {
  Shuffle(seed, draw, candidates);
  std::map<int64_t, int64_t> missing = CountByLayer(compared);
  std::vector<NamedHead> heads;
  for (const NamedHead& candidate : candidates) {
    int64_t& of_layer = missing[candidate.layer];
    if (of_layer > 0) {
      --of_layer;
      heads.push_back(candidate);
    }
  }
  SortByPlace(heads);
  return heads;
}

}  // namespace ropelab::experiments
