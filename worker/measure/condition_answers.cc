#include "worker/measure/condition_answers.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/engine/decode_session.h"
#include "worker/engine/generation.h"
#include "worker/formats/tokenizer/tokenizer.h"
#include "worker/measure/condition_edits.h"
#include "worker/measure/needle_prompts.h"

namespace ropelab::measure {
namespace {

using Edits = std::vector<ReadEdits>;  // one per condition

absl::StatusOr<Edits> ReadConditions(const v1::ConditionOutcomes& request, const formats::ModelConfig& config,
                                     int64_t question) {
  Edits edits;
  for (int c = 0; c < request.conditions_size(); ++c) {
    ROPELAB_ASSIGN_OR_RETURN(
        edits.emplace_back(),
        ReadInterventions(request.conditions(c).interventions(),
                          absl::StrCat("conditions[", c, "].interventions"), config, question));
  }
  return edits;
}

// Conditions that run together: all without low ranks, then those with, in their order, as many as decode
// side by side and as long as their edited projections stay within half of the model's weights; one may
// exceed it.
std::vector<std::vector<size_t>> GroupsOf(const Edits& edits, const model::LoadedModel& model, int threads) {
  std::vector<std::vector<size_t>> groups(1);
  for (size_t c = 0; c < edits.size(); ++c) {
    if (edits[c].ranks.empty()) groups[0].push_back(c);
  }
  int64_t held = model.bytes;
  for (size_t c = 0; c < edits.size(); ++c) {
    if (edits[c].ranks.empty()) continue;
    const int64_t bytes = engine::LowRankBytes(model, edits[c].ranks, threads);
    const bool full = std::ssize(groups.back()) == engine::kDecodeRows || held + bytes > model.bytes / 2;
    if (groups.size() == 1 || full) {
      groups.emplace_back();
      held = 0;
    }
    groups.back().push_back(c);
    held += bytes;
  }
  if (groups[0].empty()) groups.erase(groups.begin());
  return groups;
}

class AnswerRuns {
 public:
  AnswerRuns(const v1::ConditionOutcomes& request, const Resources& resources,
             const std::vector<RealisedNeedle>& needles, Recorder& recorder)
      : request_(request),
        model_(*resources.model),
        tokenizer_(*resources.tokenizer),
        needles_(needles),
        recorder_(recorder),
        conditions_(static_cast<size_t>(request.conditions_size())),
        answers_(needles.size(), std::vector<TokenIds>(conditions_)) {
    options_.most_tokens = request.answer_tokens();
    options_.stop_ids = model_.config.eos_token_ids;
    total_ = static_cast<double>(needles.size() * conditions_);
  }

  absl::Status Run() {
    // All that can be refused is refused before the first pass. Ranks are the same for every sample.
    for (const RealisedNeedle& needle : needles_) {
      const auto place = static_cast<int>(edits_.size());
      ROPELAB_RETURN_IF_ERROR(CheckFits(request_.prompts().needle().samples(place), needle));
      ROPELAB_RETURN_IF_ERROR(Named(needle, CheckAnswerHoldsCode(needle)));
      absl::StatusOr<Edits> edits = ReadConditions(request_, model_.config, needle.facts.question());
      ROPELAB_RETURN_IF_ERROR(Named(needle, edits.status()));
      for (const ReadEdits& edit : *edits) {
        ROPELAB_RETURN_IF_ERROR(Named(needle, CheckReached(edit, needle.facts.tokens())));
      }
      edits_.push_back(*std::move(edits));
    }
    for (const std::vector<size_t>& group : GroupsOf(edits_[0], model_, at::get_num_threads())) {
      ROPELAB_RETURN_IF_ERROR(AnswerAll(group));
    }
    return Emit();
  }

 private:
  // An answer that has no room for the code is wrong whatever the model says. The code's tokens in the prompt
  // and those of the code said anew may differ; the fewer of them decide.
  absl::Status CheckAnswerHoldsCode(const RealisedNeedle& needle) const {
    ROPELAB_ASSIGN_OR_RETURN(const ForcedAnswer forced, ForceAnswer(needle, tokenizer_));
    const v1::TokenSpan& code = needle.facts.code();
    const int64_t least = std::min(code.last() - code.first() + 1, std::ssize(forced.ids) - forced.first);
    if (least <= options_.most_tokens) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("its code ", needle.facts.code_text(), " is ", least,
                                                   " tokens of this model, and an answer has at most ",
                                                   options_.most_tokens,
                                                   ", so none could be right; choose a smaller code_length"));
  }
  static absl::Status Named(const RealisedNeedle& needle, const absl::Status& status) {
    if (status.ok()) return status;
    return absl::Status(status.code(),
                        absl::StrCat("sample ", needle.facts.sample(), ": ", std::string(status.message())));
  }

  // These conditions on every sample. Their edited layers are made once, for all samples.
  absl::Status AnswerAll(const std::vector<size_t>& group) {
    std::vector<engine::EditedLayers> layers;
    for (const size_t c : group) layers.push_back(MakeEditedLayers(model_, edits_[0][c].ranks));
    const auto progress = [this] { return recorder_.Progress(done_, total_); };
    for (size_t s = 0; s < needles_.size(); ++s) {
      std::vector<engine::Condition> conditions;
      for (size_t i = 0; i < group.size(); ++i) {
        conditions.push_back({&edits_[s][group[i]].heads, &layers[i]});
      }
      auto answers = engine::AnswerGreedily(model_, needles_[s].ids, conditions, options_, progress);
      ROPELAB_RETURN_IF_ERROR(Named(needles_[s], answers.status()));
      for (size_t i = 0; i < group.size(); ++i) answers_[s][group[i]] = std::move((*answers)[i]);
      done_ += static_cast<double>(group.size());
      ROPELAB_RETURN_IF_ERROR(progress());
    }
    return absl::OkStatus();
  }

  absl::Status Emit() {
    for (size_t s = 0; s < needles_.size(); ++s) {
      for (size_t c = 0; c < conditions_; ++c) {
        const TokenIds& ids = answers_[s][c];
        ROPELAB_ASSIGN_OR_RETURN(std::string text, tokenizer_.Decode(ids, /*skip_special=*/true));
        v1::Reading reading;
        v1::NeedleAnswer& answer = *reading.mutable_needle_answer();
        answer.set_sample(needles_[s].facts.sample());
        answer.set_condition(static_cast<int64_t>(c));
        answer.set_correct(text.find(needles_[s].facts.code_text()) != std::string::npos);
        answer.set_generated(std::move(text));
        answer.mutable_ids()->mutable_ids()->Add(ids.begin(), ids.end());
        answer.set_tokens(needles_[s].facts.tokens());
        ROPELAB_RETURN_IF_ERROR(recorder_.Emit(std::move(reading), {}));
      }
    }
    return absl::OkStatus();
  }

  const v1::ConditionOutcomes& request_;
  const model::LoadedModel& model_;
  const formats::Tokenizer& tokenizer_;
  const std::vector<RealisedNeedle>& needles_;
  Recorder& recorder_;
  const size_t conditions_;
  std::vector<Edits> edits_;                    // [sample][condition]
  std::vector<std::vector<TokenIds>> answers_;  // [sample][condition]
  engine::GreedyOptions options_;
  double done_ = 0, total_ = 0;  // answers
};

}  // namespace

absl::StatusOr<Outcome> MeasureAnswers(const v1::ConditionOutcomes& request, const Resources& resources,
                                       Recorder& recorder) {
  if (request.answer_tokens() < 1) {
    return absl::InvalidArgumentError(absl::StrCat("condition_outcomes.answer_tokens is ",
                                                   request.answer_tokens(),
                                                   "; an answer to a needle has 1 token or more"));
  }
  ROPELAB_RETURN_IF_ERROR(CheckSamples(request.prompts().samples()));
  ROPELAB_ASSIGN_OR_RETURN(
      const std::vector<RealisedNeedle> needles,
      RealiseNeedles(request.prompts().needle(), request.prompts().samples(), resources));
  ROPELAB_RETURN_IF_ERROR(AnswerRuns(request, resources, needles, recorder).Run());
  std::vector<TokenIds> fed;
  for (const RealisedNeedle& needle : needles) fed.push_back(needle.ids);
  return Outcome{FedIdsDigest(fed)};
}

int64_t AnswersBytes(const v1::ConditionOutcomes& request, const model::LoadedModel& model, int threads) {
  const int64_t most = model.config.max_positions;
  const int64_t tokens = std::clamp<int64_t>(LongestPrompt(request.prompts()), 1, most);
  const int64_t answer = std::clamp<int64_t>(request.answer_tokens(), 1, most);
  // Where the question stands moves no size.
  const absl::StatusOr<Edits> edits = ReadConditions(request, model.config, 0);
  if (!edits.ok() || edits->empty()) return engine::AnswerGreedilyBytes(model, tokens, 1, answer, threads);
  int64_t most_bytes = 0;
  for (const std::vector<size_t>& group : GroupsOf(*edits, model, threads)) {
    int64_t bytes = engine::AnswerGreedilyBytes(model, tokens, std::ssize(group), answer, threads);
    std::vector<int64_t> own;  // as many as decode side by side are held at a time
    for (const size_t c : group) {
      bytes += engine::LowRankBytes(model, (*edits)[c].ranks, threads);
      own.push_back(2 * engine::OwnKeyBytes((*edits)[c].heads, model.config, tokens + answer));
    }
    std::ranges::sort(own, std::greater());
    for (size_t i = 0; i < std::min<size_t>(own.size(), engine::kDecodeRows); ++i) bytes += own[i];
    most_bytes = std::max(most_bytes, bytes);
  }
  return most_bytes;
}

}  // namespace ropelab::measure
