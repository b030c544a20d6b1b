// What slash scores at all offsets cost beside the same forward pass without an observer, and what they hold
// in memory. Layers of the shape of Qwen2.5-0.5B with random weights, rounds of both passes by turns; the
// figure is the median over the rounds of their ratio.
//
//   slash_cost [--tokens 6000] [--layers 2] [--rounds 7] [--dtype float32|bfloat16] [--bar 1.3]
//
// Exits 1 when a dtype's ratio is above the bar.
#include <ATen/ATen.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/unit/engine/made_model.h"
#include "worker/engine/decoder.h"
#include "worker/engine/slash_sums.h"
#include "worker/engine/threads.h"

namespace ropelab::engine {
namespace {

struct Options {
  int64_t tokens = 6000, layers = 2, rounds = 7;
  double bar = 1.3;
  std::string dtype = "both";
};

formats::ModelConfig ConfigOf(const Options& options) {
  formats::ModelConfig config = SmallConfig();
  config.layers = options.layers;
  config.query_heads = 14;
  config.kv_heads = 2;
  config.head_dim = 64;
  config.hidden_size = 896;
  config.intermediate_size = 4864;
  config.vocabulary = 1000;
  config.max_positions = 32768;
  config.attention_scale = 1 / std::sqrt(64.0);
  config.sliding_window.assign(static_cast<size_t>(options.layers), 0);
  return config;
}

class AllOffsets : public Observer {
 public:
  AllOffsets(int64_t heads, int64_t tokens) : sums_(heads, Range(tokens)) {}
  bool WantsProbabilities(int64_t) override { return true; }
  void Probabilities(const ProbabilityBlock& block) override { sums_.Add(block); }
  absl::Status LayerDone(int64_t) override {
    total_ += sums_.Take().front();
    return absl::OkStatus();
  }
  double total() const { return total_; }

 private:
  static SlashRange Range(int64_t tokens) {
    SlashRange range;
    range.first_offset = 0;
    range.last_offset = tokens - 5;
    range.skip_first = 4;
    return range;
  }
  SlashSums sums_;
  double total_ = 0;
};

class Nobody : public Observer {};

double Seconds(const model::LoadedModel& model, const std::vector<int32_t>& ids, Observer& observer) {
  const auto start = std::chrono::steady_clock::now();
  const auto logits = Forward(model, ids, {.logit_rows = {}, .outputs = true}, observer);
  if (!logits.ok()) {
    std::fprintf(stderr, "%s\n", std::string(logits.status().message()).c_str());
    std::exit(2);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int64_t PeakBytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{1024} * usage.ru_maxrss;
}

bool Measure(const Options& options, at::ScalarType dtype, const char* name) {
  const model::LoadedModel model = MadeModel(ConfigOf(options), dtype);
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < options.tokens; ++i) ids.push_back(static_cast<int32_t>(i * 7919 % 1000));
  std::vector<double> plain, observed, ratios;
  Nobody nobody;
  Seconds(model, ids, nobody);
  const int64_t before = PeakBytes();
  for (int64_t round = 0; round < options.rounds; ++round) {
    AllOffsets all(model.config.query_heads, options.tokens);
    plain.push_back(Seconds(model, ids, nobody));
    observed.push_back(Seconds(model, ids, all));
    ratios.push_back(observed.back() / plain.back());
  }
  const double ratio = Median(ratios);
  const double layers = static_cast<double>(options.layers);
  std::printf("%-9s N %lld: plain %.0f ms a layer, all offsets %.0f ms a layer, ratio %.3f (bar %.2f); ",
              name, static_cast<long long>(options.tokens), 1e3 * Median(plain) / layers,
              1e3 * Median(observed) / layers, ratio, options.bar);
  std::printf("the observer's memory %.1f MiB (one N x N matrix of one head: %.0f MiB)\n",
              static_cast<double>(PeakBytes() - before) / 1048576.0,
              static_cast<double>(4 * options.tokens * options.tokens) / 1048576.0);
  return ratio <= options.bar;
}

int Main(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i], value = argv[i + 1];
    if (flag == "--tokens") options.tokens = std::atoll(value.c_str());
    if (flag == "--layers") options.layers = std::atoll(value.c_str());
    if (flag == "--rounds") options.rounds = std::atoll(value.c_str());
    if (flag == "--bar") options.bar = std::atof(value.c_str());
    if (flag == "--dtype") options.dtype = value;
  }
  SetThreads(AvailableThreads());
  bool within = true;
  if (options.dtype != "bfloat16") within &= Measure(options, at::kFloat, "float32");
  if (options.dtype != "float32") within &= Measure(options, at::kBFloat16, "bfloat16");
  return within ? 0 : 1;
}

}  // namespace
}  // namespace ropelab::engine

int main(int argc, char** argv) {
  return ropelab::engine::Main(argc, argv);
}
