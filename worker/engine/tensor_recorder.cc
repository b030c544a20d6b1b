#include "worker/engine/tensor_recorder.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"

namespace ropelab::engine {
namespace {

using Tensors = std::map<std::string, at::Tensor>;

std::vector<int64_t> Shape(const std::string& name, const formats::ModelConfig& c, int64_t tokens) {
  if (name == "input_ids") return {tokens};
  if (name == "logits") return {tokens, c.vocabulary};
  if (name == "attn_probs") return {c.layers, c.query_heads, tokens, tokens};
  if (name == "q_pre" || name == "q_rot") return {c.layers, c.query_heads, tokens, c.head_dim};
  if (name == "k_pre" || name == "k_rot") return {c.layers, c.kv_heads, tokens, c.head_dim};
  if (name == "hidden") return {c.layers + 1, tokens, c.hidden_size};
  return {c.head_dim / 2};  // inv_freq
}

// Copies what the decoder shows into tensors made beforehand; blocks of rows are disjoint, so threads never
// meet.
class Recorder : public Observer {
 public:
  explicit Recorder(Tensors& tensors) : tensors_(tensors) {}

  bool WantsProbabilities(int64_t) override { return tensors_.contains("attn_probs"); }
  void Probabilities(const ProbabilityBlock& block) override {
    const at::Tensor& p = block.probabilities;
    tensors_.at("attn_probs")[block.layer]
        .narrow(0, block.first_head, p.size(0))
        .narrow(1, block.first_row, p.size(1))
        .narrow(2, block.first_key, p.size(2))
        .copy_(p);
  }
  void Projected(const ProjectedRows& rows) override {
    Keep("q_pre", rows, rows.query_pre);
    Keep("k_pre", rows, rows.key_pre);
    Keep("q_rot", rows, rows.query_rot);
    Keep("k_rot", rows, rows.key_rot);
  }
  void Hidden(int64_t layer, const at::Tensor& hidden) override {
    if (const auto found = tensors_.find("hidden"); found != tensors_.end())
      found->second[layer].copy_(hidden);
  }

 private:
  void Keep(const char* name, const ProjectedRows& rows, const at::Tensor& value) {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) return;
    found->second[rows.layer].narrow(1, rows.first_row, value.size(0)).copy_(value.transpose(0, 1));
  }

  Tensors& tensors_;
};

}  // namespace

const std::vector<std::string>& TensorNames() {
  static const auto& names = *new std::vector<std::string>{
      "input_ids", "logits", "attn_probs", "q_pre", "k_pre", "q_rot", "k_rot", "hidden", "inv_freq"};
  return names;
}

absl::Status CheckTensorNames(const std::vector<std::string>& names) {
  const std::string known = absl::StrJoin(TensorNames(), ", ");
  if (names.empty())
    return absl::InvalidArgumentError(absl::StrCat("no tensor is named; name some of ", known));
  for (const std::string& name : names) {
    if (std::ranges::find(TensorNames(), name) == TensorNames().end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("there is no tensor '", name, "'; name some of ", known));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensors> InspectPrompt(const model::LoadedModel& model, std::span<const int32_t> ids,
                                      const std::vector<std::string>& names, const ForwardOptions& options) {
  ROPELAB_RETURN_IF_ERROR(CheckTensorNames(names));
  ROPELAB_RETURN_IF_ERROR(CheckPrompt(ids, model.config));
  const int64_t tokens = static_cast<int64_t>(ids.size());
  Tensors tensors;
  for (const std::string& name : names) {
    tensors[name] = at::zeros(Shape(name, model.config, tokens), at::TensorOptions().dtype(model.dtype));
  }
  ForwardOptions wanted = options;
  wanted.logit_rows.clear();
  if (tensors.contains("logits")) {
    wanted.logit_rows.resize(ids.size());
    std::iota(wanted.logit_rows.begin(), wanted.logit_rows.end(), 0);
  }
  Recorder recorder(tensors);
  ROPELAB_ASSIGN_OR_RETURN(const at::Tensor logits, Forward(model, ids, wanted, recorder));
  if (tensors.contains("logits")) {
    if (!at::isfinite(logits).all().item<bool>()) {
      return absl::FailedPreconditionError(
          "an output logit is NaN or infinite: the last block's MLP, the final norm or lm_head does not "
          "compute in this dtype");
    }
    tensors["logits"].copy_(logits);
  }
  if (tensors.contains("input_ids")) {
    tensors["input_ids"] = at::tensor(at::ArrayRef<int32_t>(ids.data(), ids.size()), at::kInt).to(at::kLong);
  }
  if (tensors.contains("inv_freq")) {
    const std::vector<double> inv_freq = formats::InverseFrequencies(model.config, tokens);
    tensors["inv_freq"] = at::tensor(at::ArrayRef<double>(inv_freq), at::kDouble).to(at::kFloat);
  }
  return tensors;
}

int64_t InspectionBytes(const model::LoadedModel& model, int64_t tokens,
                        const std::vector<std::string>& names, int threads) {
  int64_t elements = 0;
  for (const std::string& name : names) {
    const std::vector<int64_t> shape = Shape(name, model.config, tokens);
    elements += std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  }
  const bool logits = std::ranges::find(names, "logits") != names.end();
  return 3 * elements * static_cast<int64_t>(sizeof(float)) +
         ForwardBytes(model, tokens, logits ? tokens : 0, threads);
}

}  // namespace ropelab::engine
