#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/engine/decoder.h"
#include "worker/measure/parity_checks.h"
#include "worker/measure/parity_plain.h"

namespace ropelab::measure {
namespace {

struct BlocksFound {
  Worst scores;   // absolute, over max(1, largest logit / 8)
  Worst rotated;  // queries and keys before and after RoPE
  Worst outputs;  // of a layer
  Worst logits;   // of the last layer's output
};

// Follows a pass and computes each layer's plain form from the input that the engine gave that layer.
class PlainComparison : public engine::Observer {
 public:
  PlainComparison(const model::LoadedModel& model, std::string prompt, BlocksFound& found)
      : model_(model), prompt_(std::move(prompt)), found_(found) {}

  bool WantsProbabilities(int64_t) override { return true; }
  void Hidden(int64_t layer, const at::Tensor& hidden) override {
    const at::Tensor input = hidden.to(at::kDouble);
    if (layer > 0) {
      found_.outputs.See(RelativeDistance(input, plain_.output, {"row", "dimension"}, Place(layer - 1)));
    }
    if (layer == model_.config.layers) {
      last_ = input;
      return;
    }
    plain_ = RunPlainLayer(model_, layer, input);
    const auto shaped = [&](const at::Tensor& like) {
      return at::zeros(like.sizes(), like.options().dtype(at::kFloat));
    };
    scores_ = shaped(plain_.scores);
    query_pre_ = shaped(plain_.query_pre);
    key_pre_ = shaped(plain_.key_pre);
    query_rot_ = shaped(plain_.query_rot);
    key_rot_ = shaped(plain_.key_rot);
  }
  void Probabilities(const engine::ProbabilityBlock& block) override {
    const at::Tensor& p = block.probabilities;
    scores_.narrow(0, block.first_head, p.size(0))
        .narrow(1, block.first_row, p.size(1))
        .narrow(2, block.first_key, p.size(2))
        .copy_(p);
  }
  void Projected(const engine::ProjectedRows& rows) override {
    const auto keep = [&](at::Tensor& into, const at::Tensor& from) {
      into.narrow(1, rows.first_row, from.size(0)).copy_(from.transpose(0, 1));
    };
    keep(query_pre_, rows.query_pre);
    keep(key_pre_, rows.key_pre);
    keep(query_rot_, rows.query_rot);
    keep(key_rot_, rows.key_rot);
  }
  absl::Status LayerDone(int64_t layer) override {
    Worst scores = AbsoluteDistance(scores_, plain_.scores, {"head", "row", "key"}, Place(layer));
    scores.value /= std::max(1.0, plain_.largest_logit / 8);
    found_.scores.See(scores);
    const auto see = [&](const char* what, const at::Tensor& got, const at::Tensor& wanted) {
      found_.rotated.See(RelativeDistance(got, wanted, {"head", "row", "dimension"},
                                          absl::StrCat(Place(layer), ", ", what)));
    };
    see("q_pre", query_pre_, plain_.query_pre);
    see("k_pre", key_pre_, plain_.key_pre);
    see("q_rot", query_rot_, plain_.query_rot);
    see("k_rot", key_rot_, plain_.key_rot);
    return absl::OkStatus();
  }
  const at::Tensor& last() const { return last_; }

 private:
  std::string Place(int64_t layer) const { return absl::StrCat(prompt_, ", layer ", layer); }

  const model::LoadedModel& model_;
  const std::string prompt_;
  BlocksFound& found_;
  PlainLayer plain_;
  at::Tensor scores_, query_pre_, key_pre_, query_rot_, key_rot_, last_;
};

// Rows whose logits are compared: all of a short prompt, else so many of them, evenly spread, with the last.
// A large vocabulary's logits in double would otherwise be most of the memory.
constexpr int64_t kLogitRows = 64;
std::vector<int64_t> LogitRows(int64_t tokens) {
  const int64_t count = std::min(tokens, kLogitRows);
  std::vector<int64_t> rows;
  for (int64_t i = 1; i <= count; ++i) rows.push_back(i * tokens / count - 1);
  return rows;
}

// Of those rows, from the last layer's output.
at::Tensor PlainLogitsOf(const model::LoadedModel& model, const at::Tensor& hidden,
                         const std::vector<int64_t>& rows) {
  const at::Tensor index = at::tensor(at::ArrayRef<int64_t>(rows), at::kLong).to(hidden.device());
  return PlainLogits(model, hidden.index_select(0, index));
}

// The last layer's output.
at::Tensor PlainPass(const model::LoadedModel& model, const std::vector<int32_t>& ids) {
  at::Tensor hidden = PlainEmbedding(model, ids);
  for (int64_t layer = 0; layer < model.config.layers; ++layer)
    hidden = RunPlainLayer(model, layer, hidden).output;
  return hidden;
}

}  // namespace

Tolerance ToleranceOf(at::ScalarType dtype) {
  if (dtype == at::kBFloat16) return {8e-2, 5e-2, 0.5};
  if (dtype == at::kHalf) return {1e-2, 1e-2, 0.1};
  return {5e-5, 2e-4, 1e-3};
}

absl::Status CheckBlocks(const model::LoadedModel& model, const Prompts& prompts, FactList& facts) {
  const Tolerance tolerance = ToleranceOf(model.dtype);
  BlocksFound all;
  Worst whole;
  for (const BlockSize& size : kBlockSizes) {
    Worst scores;
    for (const std::vector<int32_t>& ids : prompts) {
      const auto tokens = static_cast<int64_t>(ids.size());
      const std::string prompt = absl::StrCat(tokens, " tokens");
      BlocksFound found;
      PlainComparison comparison(model, prompt, found);
      engine::ForwardOptions options;
      options.block_rows = size.rows > 0 ? size.rows : tokens;
      options.logit_rows = LogitRows(tokens);
      ROPELAB_ASSIGN_OR_RETURN(const at::Tensor logits, engine::Forward(model, ids, options, comparison));
      scores.See(found.scores);
      all.rotated.See(found.rotated);
      all.outputs.See(found.outputs);
      const auto see = [&](const at::Tensor& hidden, Worst& worst) {
        worst.See(RelativeDistance(logits, PlainLogitsOf(model, hidden, options.logit_rows),
                                   {"compared row", "token"}, prompt));
      };
      see(comparison.last(), all.logits);
      if (size.rows == engine::kBlockRows) see(PlainPass(model, ids), whole);
    }
    facts.Bounded(absl::StrCat("scores_in_", size.name), scores, tolerance.scores, "absolute");
  }
  facts.Bounded("queries_and_keys", all.rotated, tolerance.values, "relative");
  facts.Bounded("layer_outputs", all.outputs, tolerance.values, "relative");
  facts.Bounded("logits_of_last_layer", all.logits, tolerance.values, "relative");
  facts.Bounded("logits_of_whole_pass", whole, tolerance.logits, "relative");
  return absl::OkStatus();
}

}  // namespace ropelab::measure
