// The readings of conditions, put in order: what the tables are made of.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/experiments/experiment.h"
#include "server/experiments/outcome_conditions.h"
#include "server/experiments/outcome_stages.h"

namespace ropelab::experiments {

// The answers to the needles of one model and seed under every measured condition.
class OutcomeAnswers {
 public:
  OutcomeAnswers() = default;
  OutcomeAnswers(std::vector<v1::NeedleSample> samples, size_t conditions);

  const std::vector<v1::NeedleSample>& samples() const { return samples_; }
  bool Correct(size_t condition, size_t sample) const { return correct_[condition][sample] == kCorrect; }
  const std::string& Generated(size_t condition, size_t sample) const {
    return generated_[condition][sample];
  }
  // `condition`: of all measured ones. INTERNAL: no such sample or condition, or it was answered already.
  absl::Status Add(const v1::NeedleAnswer& answer, size_t condition);
  // INTERNAL when an answer is missing.
  absl::Status CheckComplete() const;

 private:
  enum State : char { kMissing, kWrong, kCorrect };
  std::vector<v1::NeedleSample> samples_;
  std::vector<std::vector<State>> correct_;  // [condition][sample]
  std::vector<std::vector<std::string>> generated_;
};

// The losses on the prompts of the perplexity: summed in the order of the samples, in double.
class OutcomeLosses {
 public:
  OutcomeLosses() = default;
  explicit OutcomeLosses(size_t conditions) : sums_(conditions) {}

  // exp(sum of nll / tokens); none where that is not finite or nothing was measured.
  std::optional<double> Perplexity(size_t condition) const;
  int64_t prompts() const { return sums_.empty() ? 0 : sums_.front().prompts; }
  // INTERNAL: not the sample that is due, or one without a predicted token.
  absl::Status Add(const v1::PromptLoss& loss, size_t condition);
  // INTERNAL when a condition was measured on other prompts than the rest.
  absl::Status CheckComplete(int64_t prompts) const;

 private:
  struct Sum {
    double nll = 0;  // nats
    int64_t tokens = 0, prompts = 0;
  };
  std::vector<Sum> sums_;
};

// What was measured for one model and seed.
struct OutcomeGroup {
  const ModelFacts* model = nullptr;  // of the context
  std::string label, dtype;
  int64_t seed = 0;
  OutcomeConditions conditions;
  OutcomeAnswers answers;
  int64_t dropped = 0;                 // needles that do not fit every model
  OutcomeLosses losses;                // empty where no perplexity is measured
  std::optional<CorpusChoice> choice;  // of the perplexity's prompts from a corpus
  int64_t in_corpus = 0;               // documents
};

// Sorted by (label, dtype, seed). INTERNAL when the readings are not exactly those of the plan. Errors:
// FindOutcomeStages', OutcomeConditionsOf's.
absl::StatusOr<std::vector<OutcomeGroup>> ReadOutcomes(const v1::ExperimentSpec& spec, const Context& context,
                                                       StageReadings& readings);

}  // namespace ropelab::experiments
