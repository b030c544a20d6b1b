#include "server/statistics/permutation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "common/philox.h"

namespace ropelab::statistics {
namespace {

constexpr double kTie = 1e-12;

// What every permutation leaves as it is, and the layers that it changes.
struct Clusters {
  struct Layer {
    std::vector<double> values;
    int64_t labelled = 0;
  };
  std::vector<Layer> mixed;  // with both labels, ascending by layer
  double fixed = 0;          // sum of the labelled values of the other layers
  double total = 0;          // sum of all values
  double largest = 0;        // |value|
  int64_t layers = 0, labelled = 0, rest = 0;

  double Difference(double labelled_sum) const {
    return labelled_sum / static_cast<double>(labelled) - (total - labelled_sum) / static_cast<double>(rest);
  }
};

Clusters ClustersOf(std::span<const LabelledHead> heads) {
  std::map<int64_t, Clusters::Layer> layers;
  std::map<int64_t, double> labelled_sums;
  Clusters clusters;
  for (const LabelledHead& head : heads) {
    Clusters::Layer& layer = layers[head.layer];
    layer.values.push_back(head.value);
    layer.labelled += head.labelled ? 1 : 0;
    labelled_sums[head.layer] += head.labelled ? head.value : 0;
    clusters.total += head.value;
    clusters.largest = std::max(clusters.largest, std::abs(head.value));
    (head.labelled ? clusters.labelled : clusters.rest) += 1;
  }
  clusters.layers = static_cast<int64_t>(layers.size());
  for (auto& [number, layer] : layers) {
    if (layer.labelled > 0 && layer.labelled < static_cast<int64_t>(layer.values.size())) {
      clusters.mixed.push_back(std::move(layer));
    } else {
      clusters.fixed += labelled_sums[number];
    }
  }
  return clusters;
}

double NullMean(const Clusters& clusters) {
  double labelled_sum = clusters.fixed;
  for (const Clusters::Layer& layer : clusters.mixed) {
    double sum = 0;
    for (const double value : layer.values) {
      sum += value;
    }
    labelled_sum += sum * static_cast<double>(layer.labelled) / static_cast<double>(layer.values.size());
  }
  return clusters.Difference(labelled_sum);
}

// T* of permutation `draw`: the labelled heads of a layer are the first ones of its shuffled values.
double Permuted(const Clusters& clusters, uint64_t seed, int64_t draw, std::vector<double>& scratch) {
  Philox philox(seed, Purpose::kPermutation, static_cast<uint64_t>(draw));
  double labelled_sum = clusters.fixed;
  for (const Clusters::Layer& layer : clusters.mixed) {
    scratch = layer.values;
    philox.Shuffle(std::span<double>(scratch));
    for (int64_t i = 0; i < layer.labelled; ++i) {
      labelled_sum += scratch[static_cast<size_t>(i)];
    }
  }
  return clusters.Difference(labelled_sum);
}

void Permute(const Clusters& clusters, uint64_t seed, PermutationTest& test) {
  if (clusters.mixed.empty()) {
    const Undefined nothing = {"no layer holds both labelled heads and others, so nothing can be permuted"};
    test.p_paper = nothing;
    test.p_centred = nothing;
    return;
  }
  const double tie = kTie * clusters.largest;
  const double paper = std::abs(test.difference) - tie;
  const double centred = std::abs(test.difference - test.null_mean) - tie;
  int64_t beyond_paper = 0, beyond_centred = 0;
  std::vector<double> scratch;
  for (int64_t draw = 0; draw < test.permutations; ++draw) {
    const double permuted = Permuted(clusters, seed, draw, scratch);
    beyond_paper += std::abs(permuted) >= paper ? 1 : 0;
    beyond_centred += std::abs(permuted - test.null_mean) >= centred ? 1 : 0;
  }
  const double all = static_cast<double>(1 + test.permutations);
  test.p_paper = static_cast<double>(1 + beyond_paper) / all;
  test.p_centred = static_cast<double>(1 + beyond_centred) / all;
}

}  // namespace

Defined<double> DifferenceOfMeans(std::span<const LabelledHead> heads) {
  double sums[2] = {0, 0};
  int64_t counts[2] = {0, 0};
  for (const LabelledHead& head : heads) {
    sums[head.labelled ? 1 : 0] += head.value;
    counts[head.labelled ? 1 : 0] += 1;
  }
  if (counts[1] == 0) {
    return Undefined{"no head is labelled"};
  }
  if (counts[0] == 0) {
    return Undefined{"every head is labelled, and none is left to compare with"};
  }
  return sums[1] / static_cast<double>(counts[1]) - sums[0] / static_cast<double>(counts[0]);
}

Defined<PermutationTest> ClusteredPermutationTest(std::span<const LabelledHead> heads, int64_t permutations,
                                                  uint64_t seed) {
  const Defined<double> difference = DifferenceOfMeans(heads);
  if (!difference.has_value()) {
    return Undefined{difference.because()};
  }
  const Clusters clusters = ClustersOf(heads);
  PermutationTest test;
  test.difference = *difference;
  test.null_mean = NullMean(clusters);
  test.layers = clusters.layers;
  test.layers_without_both = clusters.layers - static_cast<int64_t>(clusters.mixed.size());
  test.permutations = permutations;
  Permute(clusters, seed, test);
  return test;
}

}  // namespace ropelab::statistics
