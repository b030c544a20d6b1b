#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "worker/engine/decode_session.h"
#include "worker/engine/decoder.h"
#include "worker/measure/parity_checks.h"

namespace ropelab::measure {
namespace {

constexpr int64_t kMappingTokens = 24;
constexpr uint64_t kMappingSeed = 7;

class ScoreKeeper : public engine::Observer {
 public:
  ScoreKeeper(int64_t heads, int64_t tokens) : scores_(at::zeros({heads, tokens, tokens})) {}
  bool WantsProbabilities(int64_t) override { return true; }
  void Probabilities(const engine::ProbabilityBlock& block) override {
    const at::Tensor& p = block.probabilities;
    scores_.narrow(0, block.first_head, p.size(0))
        .narrow(1, block.first_row, p.size(1))
        .narrow(2, block.first_key, p.size(2))
        .copy_(p);
  }
  const at::Tensor& scores() const { return scores_; }

 private:
  at::Tensor scores_;  // [H, T, T] fp32 on the CPU
};

// `layer` alone, fed with the embeddings; its projections of queries and keys are drawn.
model::LoadedModel OneLayer(const model::LoadedModel& model, size_t layer) {
  model::LoadedModel one = model;
  one.config.layers = 1;
  if (!model.config.sliding_window.empty()) one.config.sliding_window = {model.config.sliding_window[layer]};
  one.weights.layers = {model.weights.layers[layer]};
  model::LayerWeights& weights = one.weights.layers[0];
  at::Generator random = at::detail::createCPUGenerator(kMappingSeed);
  const double size = 1.0 / std::sqrt(static_cast<double>(model.config.hidden_size));
  for (at::Tensor* weight : {&weights.query, &weights.key}) {
    const at::Tensor drawn = at::randn(weight->sizes(), random, at::TensorOptions().dtype(at::kFloat)) * size;
    *weight = drawn.to(weight->options());
  }
  return one;
}

absl::StatusOr<at::Tensor> Scores(const model::LoadedModel& one, const std::vector<int32_t>& ids) {
  ScoreKeeper keeper(one.config.query_heads, static_cast<int64_t>(ids.size()));
  engine::ForwardOptions options;
  options.outputs = false;
  ROPELAB_RETURN_IF_ERROR(engine::Forward(one, ids, options, keeper).status());
  return keeper.scores();
}

// The rows of one KV head with their sign changed. Exact in every dtype, and no norm over heads feels it.
at::Tensor Negated(const at::Tensor& rows, int64_t head, int64_t dims) {
  if (!rows.defined()) return rows;
  at::Tensor changed = rows.clone();
  changed.narrow(0, head * dims, dims).neg_();
  return changed;
}

// One layer of each kind of window, and the last.
std::set<size_t> LayersToLookAt(const formats::ModelConfig& config) {
  std::set<size_t> layers = {0, static_cast<size_t>(config.layers - 1)};
  std::set<int64_t> windows;
  for (size_t layer = 0; layer < config.sliding_window.size(); ++layer) {
    if (windows.insert(config.sliding_window[layer]).second) layers.insert(layer);
  }
  return layers;
}

}  // namespace

absl::Status CheckKvMapping(const model::LoadedModel& model, const std::vector<int32_t>& prompt,
                            FactList& facts) {
  const formats::ModelConfig& config = model.config;
  const int64_t readers = config.query_heads / config.kv_heads;
  const std::vector<int32_t> ids(
      prompt.begin(),
      prompt.begin() + std::min<int64_t>(kMappingTokens, static_cast<int64_t>(prompt.size())));
  Worst wrong;
  for (const size_t layer : LayersToLookAt(config)) {
    model::LoadedModel one = OneLayer(model, layer);
    const at::Tensor key = one.weights.layers[0].key, bias = one.weights.layers[0].key_bias;
    ROPELAB_ASSIGN_OR_RETURN(const at::Tensor before, Scores(one, ids));
    for (int64_t group = 0; group < config.kv_heads; ++group) {
      one.weights.layers[0].key = Negated(key, group, config.head_dim);
      one.weights.layers[0].key_bias = Negated(bias, group, config.head_dim);
      ROPELAB_ASSIGN_OR_RETURN(const at::Tensor after, Scores(one, ids));
      int64_t misplaced = 0;
      std::vector<int64_t> answered;
      for (int64_t head = 0; head < config.query_heads; ++head) {
        const bool changed = !at::equal(before[head], after[head]);
        if (changed) answered.push_back(head);
        if (changed != (head / readers == group)) ++misplaced;
      }
      wrong.See(static_cast<double>(misplaced),
                absl::StrCat("layer ", layer, ", KV head ", group, " is read by query heads ",
                             absl::StrJoin(answered, " ")));
    }
  }
  facts.Bounded("kv_head_mapping", wrong, 0, "query heads misplaced");
  return absl::OkStatus();
}

absl::Status CheckDecoding(const model::LoadedModel& model, const std::vector<int32_t>& prompt,
                           FactList& facts) {
  // Where frequencies depend on the length, tokens fed one by one turn as Hugging Face's growing cache: the
  // two passes agree as long as the frequencies stay.
  std::vector<int32_t> ids = prompt;
  const std::vector<double> first = formats::InverseFrequencies(model.config, 1);
  while (ids.size() > 1 &&
         formats::InverseFrequencies(model.config, static_cast<int64_t>(ids.size())) != first) {
    ids.pop_back();
  }
  engine::ForwardOptions options;
  options.logit_rows.resize(ids.size());
  std::iota(options.logit_rows.begin(), options.logit_rows.end(), 0);
  engine::Observer nobody;
  ROPELAB_ASSIGN_OR_RETURN(const at::Tensor logits, engine::Forward(model, ids, options, nobody));
  engine::DecodeSession session(model, static_cast<int64_t>(ids.size()));
  at::Tensor decoded = at::empty_like(logits);
  for (size_t position = 0; position < ids.size(); ++position) {
    std::array<int32_t, engine::kDecodeRows> rows;
    rows.fill(ids[position]);
    decoded[static_cast<int64_t>(position)].copy_(session.Step(rows)[0]);
  }
  const Tolerance tolerance = ToleranceOf(model.dtype);
  facts.Bounded("decoding", RelativeDistance(decoded, logits, {"position", "token"}, ""),
                model.dtype == at::kFloat ? tolerance.values : tolerance.logits, "relative");
  return absl::OkStatus();
}

}  // namespace ropelab::measure
