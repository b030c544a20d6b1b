#include "server/experiments/outcome_dims.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "absl/strings/str_cat.h"
#include "common/philox.h"

namespace ropelab::experiments {
namespace {

// "0.0625 (2 dimensions)": a share that gives `dims` of `head_dim`.
std::string ShareFor(int64_t dims, int64_t head_dim) {
  return absl::StrCat(static_cast<double>(dims) / static_cast<double>(head_dim), " (", dims, " dimensions)");
}

// The counts nearest to `dims` that would do, one below and one above where there are both.
std::vector<int64_t> Nearest(double dims, int64_t step, int64_t head_dim) {
  const int64_t below = static_cast<int64_t>(std::floor(dims / static_cast<double>(step))) * step;
  std::vector<int64_t> nearest;
  for (const int64_t count : {below, below + step}) {
    if (count >= step && count <= head_dim) {
      nearest.push_back(count);
    }
  }
  if (nearest.empty()) {
    nearest.push_back(dims < 1 ? step : head_dim);
  }
  return nearest;
}

std::string Rule(bool whole_pairs, int64_t head_dim) {
  return absl::StrCat(whole_pairs ? "conditions by frequency take whole pairs: an even number, 2 to "
                                  : "a whole number, 1 to ",
                      head_dim);
}

// Pairs of the dimensions of a head, from the fastest to the slowest.
std::vector<int64_t> PairsByFrequency(const v1::ModelConfig& config) {
  std::vector<int64_t> pairs(static_cast<size_t>(config.inv_freq_size()));
  std::iota(pairs.begin(), pairs.end(), 0);
  std::stable_sort(pairs.begin(), pairs.end(), [&](int64_t a, int64_t b) {
    return config.inv_freq(static_cast<int>(a)) > config.inv_freq(static_cast<int>(b));
  });
  return pairs;
}

// Both dimensions of each pair, ascending.
Dims DimsOfPairs(std::span<const int64_t> pairs, int64_t head_dim) {
  Dims dims;
  for (const int64_t pair : pairs) {
    dims.push_back(static_cast<int32_t>(pair));
    dims.push_back(static_cast<int32_t>(pair + head_dim / 2));
  }
  std::sort(dims.begin(), dims.end());
  return dims;
}

}  // namespace

std::optional<int64_t> DimsOfShare(double share, int64_t head_dim) {
  const double dims = share * static_cast<double>(head_dim);
  const double whole = std::round(dims);
  if (std::abs(dims - whole) > 1e-9 * static_cast<double>(head_dim)) {
    return std::nullopt;
  }
  return static_cast<int64_t>(whole);
}

void CheckDimsShare(double share, const std::string& path, bool whole_pairs, const Facts& facts,
                    Problems& problems) {
  if (!(share > 0 && share <= 1)) {
    problems.Add(path, absl::StrCat(share), "is a share of head_dim, above 0 and at most 1");
    return;
  }
  const int64_t step = whole_pairs ? 2 : 1;
  for (const ModelFacts& model : facts.models) {
    const int64_t head_dim = model.config.head_dim();
    const std::optional<int64_t> dims = DimsOfShare(share, head_dim);
    if (dims.has_value() && *dims >= step && *dims % step == 0) {
      continue;
    }
    std::string would;
    for (const int64_t count : Nearest(share * static_cast<double>(head_dim), step, head_dim)) {
      absl::StrAppend(&would, would.empty() ? "" : " or ", ShareFor(count, head_dim));
    }
    problems.Add(path, absl::StrCat(share),
                 absl::StrCat("gives ", share * static_cast<double>(head_dim), " of the ", head_dim,
                              " dimensions of model ", model.name, "; ", Rule(whole_pairs, head_dim), "; ",
                              would, " would do"));
    return;
  }
}

void CheckDims(int64_t dims, const std::string& path, bool whole_pairs, const Facts& facts,
               Problems& problems) {
  const int64_t step = whole_pairs ? 2 : 1;
  for (const ModelFacts& model : facts.models) {
    const int64_t head_dim = model.config.head_dim();
    if (dims >= step && dims <= head_dim && dims % step == 0) {
      continue;
    }
    std::string would;
    for (const int64_t count : Nearest(static_cast<double>(dims), step, head_dim)) {
      absl::StrAppend(&would, would.empty() ? "" : " or ", count);
    }
    problems.Add(path, absl::StrCat(dims),
                 absl::StrCat("a head of model ", model.name, " has ", head_dim, " dimensions; ",
                              Rule(whole_pairs, head_dim), "; ", would, " would do"));
    return;
  }
}

Dims LowestFrequencyDims(const v1::ModelConfig& config, int64_t count) {
  const std::vector<int64_t> pairs = PairsByFrequency(config);
  return DimsOfPairs(std::span(pairs).last(static_cast<size_t>(count / 2)), config.head_dim());
}

Dims HighestFrequencyDims(const v1::ModelConfig& config, int64_t count) {
  const std::vector<int64_t> pairs = PairsByFrequency(config);
  return DimsOfPairs(std::span(pairs).first(static_cast<size_t>(count / 2)), config.head_dim());
}

Dims RandomDimsOf(int64_t head_dim, int64_t count, bool pairs, uint64_t seed, int64_t draw, int64_t layer,
                  int64_t head) {
  std::vector<int64_t> places(static_cast<size_t>(pairs ? head_dim / 2 : head_dim));
  std::iota(places.begin(), places.end(), 0);
  Philox philox({seed, static_cast<uint64_t>(Purpose::kRandomDims)},
                {0, static_cast<uint64_t>(draw), static_cast<uint64_t>(layer), static_cast<uint64_t>(head)});
  philox.Shuffle(std::span<int64_t>(places));
  const auto chosen = std::span<const int64_t>(places).first(static_cast<size_t>(pairs ? count / 2 : count));
  if (pairs) {
    return DimsOfPairs(chosen, head_dim);
  }
  Dims dims(chosen.begin(), chosen.end());
  std::sort(dims.begin(), dims.end());
  return dims;
}

}  // namespace ropelab::experiments
