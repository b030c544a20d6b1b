#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/experiments/cost.h"
#include "server/experiments/prompt_cost.h"
#include "server/experiments/prompts.h"
#include "server/experiments/rank_analysis.h"

namespace ropelab::experiments {
namespace {

constexpr int64_t kBytesPerRow = 96;  // of a result table, as stored

// A Gram matrix of `rows` rows and its eigenvalues (4/3 n^3 to make it tridiagonal).
double SpectrumFlops(int64_t rows, int64_t n) {
  const double size = static_cast<double>(n);
  return 2 * static_cast<double>(rows) * size * size + 4.0 / 3 * size * size * size;
}

double PromptFlops(const ModelFacts& model, int64_t tokens) {
  const v1::ModelConfig& config = model.config;
  const double heads = static_cast<double>(config.query_heads() + config.kv_heads());
  const double layer =
      heads * SpectrumFlops(tokens, config.head_dim()) + SpectrumFlops(tokens, config.hidden_size());
  return ForwardFlops(model, tokens) + static_cast<double>(config.layers()) * layer;
}

double WeightFlops(const v1::ModelConfig& config) {
  const double heads = static_cast<double>(config.layers() * (config.query_heads() + config.kv_heads()));
  return heads * SpectrumFlops(config.hidden_size(), config.head_dim());
}

// Queries and keys of every token, the same once more along the singular directions, and the cone.
double VocabularyFlops(const v1::ModelConfig& config) {
  const double tokens = static_cast<double>(config.vocabulary());
  const int64_t heads = config.query_heads() + config.kv_heads();
  const int64_t columns = 2 * heads * config.head_dim() + heads + kRandomVectors;
  return 2 * tokens * static_cast<double>(config.hidden_size() * columns) +
         static_cast<double>(heads) * SpectrumFlops(config.vocabulary(), config.head_dim());
}

void AddBytes(const v1::ExperimentSpec& spec, const PromptShape& shape, const v1::ModelConfig& config,
              v1::Estimate& estimate) {
  const v1::RankAnalysis& analysis = spec.rank_analysis();
  const int64_t seeds = spec.seeds_size(), heads = config.query_heads(), layers = config.layers();
  const int64_t both = heads + config.kv_heads();
  int64_t readings = layers * both * 10;                        // a share and a count
  readings += seeds * shape.count * layers * (both * 18 + 24);  // and a variation of the norm
  int64_t rows = seeds * layers * (6 * heads + 1);
  if (analysis.vocabulary()) {
    readings += seeds * (both * (48 + 2 * kCosineBins) + kRandomVectors * 8);
    rows += seeds * 4 * heads + 2 * heads * kCosineBins;
  }
  int64_t views = 0;
  if (analysis.has_block()) {
    views = seeds * ViewBytes(config, analysis.block(), ListedHeads(analysis.heads()));
  }
  estimate.set_reading_bytes(estimate.reading_bytes() + readings + views);
  estimate.set_result_bytes(estimate.result_bytes() + rows * kBytesPerRow + views);
}

}  // namespace

v1::Estimate RankAnalysisExperiment::Cost(const v1::ExperimentSpec& spec, const Facts& facts) const {
  const v1::RankAnalysis& analysis = spec.rank_analysis();
  const PromptShape shape = ShapeOf(analysis.prompts()).value_or(PromptShape());
  const int64_t seeds = spec.seeds_size();
  v1::Estimate estimate;
  double flops = 0;
  std::set<std::string> tokenizers;
  for (const ModelFacts& model : facts.models) {
    flops += AddPromptStages(analysis.prompts(), seeds, model, tokenizers, estimate);
    const double prompts =
        PromptsFlops(analysis.prompts(), [&](int64_t tokens) { return PromptFlops(model, tokens); });
    flops += WeightFlops(model.config) + static_cast<double>(seeds) * prompts;
    if (analysis.vocabulary()) {
      flops += static_cast<double>(seeds) * VocabularyFlops(model.config);
    }
    estimate.set_tasks(estimate.tasks() + 1 +
                       seeds * (BlockCount(shape.count) + (analysis.vocabulary() ? 1 : 0)));
    AddBytes(spec, shape, model.config, estimate);
  }
  SetDeviceSeconds(flops, estimate);
  estimate.set_basis(
      absl::StrCat(estimate.basis(), "; Gram matrices, their eigenvalues and the vocabulary are counted"));
  if (analysis.has_block() && IsFoundLater(analysis.heads())) {
    estimate.set_basis(
        absl::StrCat(estimate.basis(), "; views of heads that are still to be found are not counted"));
  }
  AddPromptBasis(analysis.prompts(), estimate);
  return estimate;
}

}  // namespace ropelab::experiments
