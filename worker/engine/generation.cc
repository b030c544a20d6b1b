#include "worker/engine/generation.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/engine/condition_decoder.h"
#include "worker/engine/draw.h"
#include "worker/engine/layer_ops.h"
#include "worker/engine/prompt_keys.h"
#include "worker/model/int8_weights.h"

namespace ropelab::engine {
namespace {

const HeadEdits& EditsOf(const Condition& condition) {
  static const auto& none = *new HeadEdits();
  return condition.edits == nullptr ? none : *condition.edits;
}

int64_t FirstLayerOf(const Condition& condition, const formats::ModelConfig& config) {
  const int64_t first = FirstEditedLayer(EditsOf(condition), config);
  const bool replaces = condition.edited_layers != nullptr && !condition.edited_layers->empty();
  return replaces ? std::min(first, condition.edited_layers->begin()->first) : first;
}

absl::Status Check(const model::LoadedModel& model, std::span<const int32_t> prompt,
                   std::span<const Condition> conditions, const GreedyOptions& options) {
  const formats::ModelConfig& config = model.config;
  if (options.most_tokens < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("an answer of at most ", options.most_tokens, " tokens; give 1 or more"));
  }
  ROPELAB_RETURN_IF_ERROR(CheckPrompt(prompt, config));
  const int64_t tokens = static_cast<int64_t>(prompt.size());
  if (tokens + options.most_tokens > config.max_positions) {
    return absl::InvalidArgumentError(absl::StrCat("the prompt of ", tokens, " tokens and an answer of ",
                                                   options.most_tokens, " do not fit the model's ",
                                                   config.max_positions, " positions; shorten one of them"));
  }
  for (size_t c = 0; c < conditions.size(); ++c) {
    const absl::Status status = CheckEdits(EditsOf(conditions[c]), config);
    if (!status.ok()) {
      return absl::Status(status.code(), absl::StrCat("condition ", c, ", ", std::string(status.message())));
    }
    const EditedLayers* layers = conditions[c].edited_layers;
    if (layers == nullptr || layers->empty()) continue;
    if (layers->begin()->first >= 0 && layers->rbegin()->first < config.layers) continue;
    return absl::InvalidArgumentError(absl::StrCat("condition ", c, ": layers ", layers->begin()->first,
                                                   " to ", layers->rbegin()->first,
                                                   " are edited; the model has 0 to ", config.layers - 1));
  }
  return absl::OkStatus();
}

// One call of AnswerGreedily. The pass without edits is carried from one first edited layer to the next; each
// condition's pass starts from there and shares what lies below.
class Answers {
 public:
  Answers(const model::LoadedModel& model, std::span<const int32_t> prompt,
          std::span<const Condition> conditions, const GreedyOptions& options,
          absl::FunctionRef<absl::Status()> progress)
      : model_(model),
        prompt_(prompt),
        tokens_(static_cast<int64_t>(prompt.size())),
        conditions_(conditions),
        options_(options),
        progress_(progress),
        weights_(model),
        inv_freq_(formats::InverseFrequencies(model.config, tokens_)),
        carried_(static_cast<size_t>(model.config.layers)),
        answers_(conditions.size()) {}

  absl::StatusOr<std::vector<std::vector<int32_t>>> Go();

 private:
  // A condition that is being decoded.
  struct Row {
    size_t condition = 0;
    EditsByLayer edits;
    std::vector<PromptKeys> prompt;
  };

  absl::Status CarryTo(int64_t layer);
  absl::StatusOr<Row> Read(size_t condition);
  absl::Status Decode(std::vector<Row> rows);
  absl::Status Take(const at::Tensor& logits, size_t condition);
  bool IsOver(size_t condition) const;
  ForwardOptions FromHere() const;

  const model::LoadedModel& model_;
  const std::span<const int32_t> prompt_;
  const int64_t tokens_;
  const std::span<const Condition> conditions_;
  const GreedyOptions& options_;
  const absl::FunctionRef<absl::Status()> progress_;
  const DecodeWeights weights_;
  const std::vector<double> inv_freq_;
  int64_t layer_ = 0;                // that residual_ enters
  at::Tensor residual_;              // undefined at layer 0
  std::vector<PromptKeys> carried_;  // below layer_
  std::vector<std::vector<int32_t>> answers_;
};

ForwardOptions Answers::FromHere() const {
  ForwardOptions options;
  if (layer_ > 0) options.start = LayerInput{layer_, residual_};
  return options;
}

absl::Status Answers::CarryTo(int64_t layer) {
  if (layer == layer_) return absl::OkStatus();
  const EditsByLayer none;
  ForwardOptions options = FromHere();
  options.end_layer = layer;
  PromptKeysKeeper keeper(model_, tokens_, none, layer, progress_);
  const absl::Status status = Forward(model_, prompt_, options, keeper).status();
  if (!status.ok()) return status;
  std::copy(keeper.layers().begin() + layer_, keeper.layers().begin() + layer, carried_.begin() + layer_);
  residual_ = keeper.residual();
  layer_ = layer;
  return absl::OkStatus();
}

absl::Status Answers::Take(const at::Tensor& logits, size_t condition) {
  const at::Tensor row = logits.to(at::kCPU, at::kFloat).contiguous();
  const std::span<const float> values(row.data_ptr<float>(), static_cast<size_t>(row.numel()));
  if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) {
    return absl::FailedPreconditionError(absl::StrCat(
        "condition ", condition, ", token ", answers_[condition].size() + 1,
        " of the answer: an output logit is NaN or infinite; the checkpoint does not compute in this dtype ",
        "(FLOAT32 or BFLOAT16 reach further than FLOAT16)"));
  }
  answers_[condition].push_back(LargestLogit(values));
  return absl::OkStatus();
}

bool Answers::IsOver(size_t condition) const {
  const std::vector<int32_t>& answer = answers_[condition];
  return static_cast<int64_t>(answer.size()) >= options_.most_tokens ||
         std::ranges::find(options_.stop_ids, answer.back()) != options_.stop_ids.end();
}

absl::StatusOr<Answers::Row> Answers::Read(size_t condition) {
  const Condition& asked = conditions_[condition];
  Row row{condition, ReadyEdits(EditsOf(asked), model_.config, inv_freq_, model_.dtype, model_.device),
          carried_};
  ForwardOptions options = FromHere();
  options.head_edits = asked.edits;
  options.edited_layers = asked.edited_layers;
  options.logit_rows = {tokens_ - 1};
  PromptKeysKeeper keeper(model_, tokens_, row.edits, model_.config.layers, progress_);
  const auto logits = Forward(model_, prompt_, options, keeper);
  if (!logits.ok()) {
    return absl::Status(logits.status().code(),
                        absl::StrCat("condition ", condition, ": ", std::string(logits.status().message())));
  }
  std::copy(keeper.layers().begin() + layer_, keeper.layers().end(), row.prompt.begin() + layer_);
  ROPELAB_RETURN_IF_ERROR(Take((*logits)[0], condition));
  return row;
}

absl::Status Answers::Decode(std::vector<Row> rows) {
  std::vector<DecodedCondition> decoded;
  for (Row& row : rows) {
    decoded.push_back({&row.edits, conditions_[row.condition].edited_layers, std::exchange(row.prompt, {})});
  }
  const int64_t capacity = std::max<int64_t>(options_.most_tokens - 1, 1);  // the last token is never fed
  // A condition alone is padded as in the batch, unless its bits do not depend on that.
  const int64_t rows_fed = RowsAreIndependent(model_.dtype, model_.device) ? std::ssize(rows) : kDecodeRows;
  std::optional<ConditionDecoder> decoder;
  while (true) {
    std::vector<int32_t> ids(static_cast<size_t>(rows_fed), prompt_[0]);
    std::vector<bool> live(static_cast<size_t>(rows_fed), false);
    for (size_t r = 0; r < rows.size(); ++r) {
      live[r] = !IsOver(rows[r].condition);
      if (live[r]) ids[r] = answers_[rows[r].condition].back();
    }
    if (std::ranges::find(live, true) == live.end()) return absl::OkStatus();
    if (!decoder) decoder.emplace(model_, weights_, std::move(decoded), tokens_, capacity, rows_fed);
    ROPELAB_ASSIGN_OR_RETURN(const at::Tensor logits, decoder->Step(ids, live));
    for (size_t r = 0; r < rows.size(); ++r) {
      if (live[r]) ROPELAB_RETURN_IF_ERROR(Take(logits[static_cast<int64_t>(r)], rows[r].condition));
    }
    ROPELAB_RETURN_IF_ERROR(progress_());
  }
}

absl::StatusOr<std::vector<std::vector<int32_t>>> Answers::Go() {
  const int64_t layers = model_.config.layers;
  std::vector<int64_t> first;
  for (const Condition& condition : conditions_) first.push_back(FirstLayerOf(condition, model_.config));
  std::vector<size_t> order(conditions_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t c) { return first[c]; });
  std::vector<Row> rows;
  std::optional<size_t> unedited;
  for (const size_t c : order) {
    if (first[c] == layers) {  // the model as it is, once for all that ask for it
      if (unedited) continue;
      unedited = c;
    } else {
      ROPELAB_RETURN_IF_ERROR(CarryTo(first[c]));
    }
    ROPELAB_ASSIGN_OR_RETURN(rows.emplace_back(), Read(c));
    if (std::ssize(rows) == kDecodeRows) ROPELAB_RETURN_IF_ERROR(Decode(std::exchange(rows, {})));
  }
  if (!rows.empty()) ROPELAB_RETURN_IF_ERROR(Decode(std::move(rows)));
  for (size_t c = 0; c < conditions_.size(); ++c) {
    if (first[c] == layers) answers_[c] = answers_[*unedited];
  }
  return std::move(answers_);
}

}  // namespace

absl::StatusOr<std::vector<std::vector<int32_t>>> AnswerGreedily(const model::LoadedModel& model,
                                                                 std::span<const int32_t> prompt,
                                                                 std::span<const Condition> conditions,
                                                                 const GreedyOptions& options,
                                                                 absl::FunctionRef<absl::Status()> progress) {
  ROPELAB_RETURN_IF_ERROR(Check(model, prompt, conditions, options));
  const at::NoGradGuard no_gradients;
  return Answers(model, prompt, conditions, options, progress).Go();
}

int64_t AnswerGreedilyBytes(const model::LoadedModel& model, int64_t tokens, int64_t conditions,
                            int64_t most_tokens, int threads) {
  // The carried pass keeps its keys and one residual, each row of a group those above its first edit.
  const int64_t rows = std::min<int64_t>(conditions, kDecodeRows);
  const int64_t kept = (1 + rows) * PromptKeysBytes(model.config, tokens) +
                       2 * tokens * model.config.hidden_size * static_cast<int64_t>(sizeof(float));
  return kept + ForwardBytes(model, tokens, 1, threads) + ConditionDecoder::Bytes(model, tokens, most_tokens);
}

}  // namespace ropelab::engine
