// statistics_cases: one JSON case a line of standard input, its figures as JSON on standard output; what is
// undefined is null. Lets a test hold server/statistics against another implementation.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "server/statistics/bootstrap.h"
#include "server/statistics/correlation.h"
#include "server/statistics/effect.h"
#include "server/statistics/mcnemar.h"
#include "server/statistics/multiple.h"
#include "server/statistics/onset.h"
#include "server/statistics/permutation.h"
#include "server/statistics/sets.h"

namespace {

using nlohmann::json;
using namespace ropelab::statistics;

json Say(const Defined<double>& figure) {
  return figure.has_value() ? json(*figure) : json();
}

json Say(const Defined<Interval>& interval) {
  return interval.has_value() ? json{interval->low, interval->high, interval->resamples} : json();
}

json Say(const Defined<Onset>& onset) {
  return onset.has_value() ? json{onset->index, onset->low, onset->high, onset->midpoint} : json();
}

std::vector<double> Values(const json& one, const char* name) {
  return one.at(name).get<std::vector<double>>();
}

json Groups(const json& one) {
  const std::vector<double> a = Values(one, "a"), b = Values(one, "b");
  const Defined<WelchTest> welch = Welch(a, b);
  return {{"cohens_d", Say(CohensD(a, b))},
          {"welch", welch.has_value() ? json{welch->t, welch->degrees, welch->p} : json()}};
}

json Pairs(const json& one) {
  const std::vector<double> x = Values(one, "x"), y = Values(one, "y");
  json said = {
      {"ranks", AverageRanks(x)}, {"pearson", Say(Pearson(x, y))}, {"spearman", Say(Spearman(x, y))}};
  std::vector<double> differences;
  for (size_t i = 0; i < x.size(); ++i) {
    differences.push_back(x[i] - y[i]);
  }
  said["bootstrap"] = Say(BootstrapMean(differences, one.at("resamples"), one.at("seed")));
  return said;
}

json Layers(const json& one) {
  const std::vector<double> x = Values(one, "x"), y = Values(one, "y");
  const auto layers = one.at("layers").get<std::vector<int64_t>>();
  const auto labels = one.at("labels").get<std::vector<bool>>();
  const int64_t resamples = one.at("resamples");
  const uint64_t seed = one.at("seed");
  std::vector<LayeredPair> pairs;
  std::vector<LabelledHead> heads;
  for (size_t i = 0; i < x.size(); ++i) {
    pairs.push_back({layers[i], x[i], y[i]});
    heads.push_back({layers[i], x[i], labels[i]});
  }
  json said;
  for (const PartialOrder order : {PartialOrder::kDemeanFirst, PartialOrder::kRankFirst}) {
    const std::string name = order == PartialOrder::kDemeanFirst ? "demean_first" : "rank_first";
    said[name] = Say(PartialSpearman(pairs, order));
    said[name + "_interval"] = Say(BootstrapPartialSpearman(pairs, order, resamples, seed));
  }
  said["difference_interval"] = Say(BootstrapDifferenceOfMeans(heads, resamples, seed));
  const Defined<PermutationTest> test = ClusteredPermutationTest(heads, one.at("permutations"), seed);
  if (test.has_value()) {
    said["permutation"] = {test->difference, test->null_mean, Say(test->p_paper), Say(test->p_centred),
                           test->layers_without_both};
  }
  return said;
}

json Answer(const json& one) {
  const std::string what = one.at("what");
  if (what == "groups") {
    return Groups(one);
  }
  if (what == "pairs") {
    return Pairs(one);
  }
  if (what == "layers") {
    return Layers(one);
  }
  if (what == "mcnemar") {
    return McNemarExact(one.at("first"), one.at("second"));
  }
  if (what == "multiple") {
    return BenjaminiHochberg(Values(one, "p"));
  }
  if (what == "jaccard") {
    const Overlap overlap =
        OverlapOf(one.at("first").get<std::vector<Place>>(), one.at("second").get<std::vector<Place>>());
    return Say(Jaccard(overlap));
  }
  const std::vector<double> counts = Values(one, "counts");
  return {{"smoothed", RunningMedian(counts, one.at("window"))},
          {"default", Say(SmoothedOnset(counts, one.at("window")))},
          {"paper", Say(PaperOnset(counts))}};
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << Answer(json::parse(line)).dump() << "\n";
  }
}
