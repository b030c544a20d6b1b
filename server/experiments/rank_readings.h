// The readings of a rank analysis, merged: what its tables are made of.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/experiments/corpus_stages.h"
#include "server/experiments/rank_analysis.h"

namespace ropelab::experiments {

// One entry per head: sums over prompts while they are read, then means. A prompt whose matrix is zero has
// r1 NaN, and so has then the mean.
struct SideMeans {
  std::vector<double> r1, rank, norm_rv;
};
struct LayerMeans {
  int64_t prompts = 0;
  SideMeans query, key;  // per query head, per KV head
  double hidden_r1 = 0, hidden_rank = 0;
};

// What was measured for one model and seed.
struct RankGroup {
  const ModelFacts* model = nullptr;  // of the context
  std::string label, dtype;
  int64_t seed = 0;
  std::set<std::pair<int64_t, int64_t>> dominant;  // layer, head: the spec's heads
  std::vector<LayerMeans> layers;
  std::vector<v1::WeightSpectra> weights;              // per layer
  std::optional<v1::VocabularySide> vocabulary_query;  // where the spec asks for the vocabulary
  std::optional<v1::VocabularySide> vocabulary_key;
  std::optional<v1::ArtifactName> views;
  std::optional<CorpusChoice> choice;  // of prompts from a corpus
  int64_t in_corpus = 0;               // documents
  int64_t prompts = 0;

  bool Dominant(int64_t layer, int64_t head) const { return dominant.count({layer, head}) > 0; }
  // The KV head of a query head.
  int64_t KvHead(int64_t head) const { return head * model->config.kv_heads() / model->config.query_heads(); }
};

// Sorted by (label, dtype, seed). Sums over prompts run in sample order. INTERNAL when the readings are not
// exactly those of the plan: every layer of every sample, every layer's weights, both sides of the vocabulary
// and the views where they were asked for, each once and of the model's sizes. Errors: FindPrompts',
// HeadsOf's.
absl::StatusOr<std::vector<RankGroup>> ReadRanks(const v1::ExperimentSpec& spec, const Context& context,
                                                 StageReadings& readings);

}  // namespace ropelab::experiments
