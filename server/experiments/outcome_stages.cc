#include "server/experiments/outcome_stages.h"

#include <algorithm>
#include <utility>

#include "common/status_macros.h"
#include "server/experiments/outcome.h"
#include "server/experiments/outcome_fields.h"

namespace ropelab::experiments {

absl::StatusOr<OutcomeStages> FindOutcomeStages(const v1::ExperimentSpec& spec, const Context& context,
                                                int64_t stage, StageReadings& readings) {
  const OutcomeFields fields = FieldsOf(spec);
  OutcomeStages found;
  if (fields.NeedsUtilities()) {
    if (stage < 2) {
      ROPELAB_ASSIGN_OR_RETURN(found.before, UtilityTasks(spec, context, /*fold_norm=*/false));
      return found;
    }
    ROPELAB_ASSIGN_OR_RETURN(found.utilities, ReadUtilities(context, 1, readings));
    found.stages = 1;
  }
  const std::vector<uint64_t> seeds(spec.seeds().begin(), spec.seeds().end());
  ROPELAB_ASSIGN_OR_RETURN(
      found.needles, FindNeedles(*fields.needles, v1::NeedlePrompts::TEST, seeds, context.models, context,
                                 stage, readings, found.stages + 1));
  if (!found.needles.before.empty()) {
    found.before = std::move(found.needles.before);
    return found;
  }
  found.stages += found.needles.stages;
  if (fields.perplexity != nullptr) {
    ReadingsFrom later(readings, found.stages);
    ROPELAB_ASSIGN_OR_RETURN(found.prompts,
                             FindPrompts(*fields.perplexity, spec, context, stage - found.stages, later));
    if (!found.prompts->before.empty()) {
      found.before = std::move(found.prompts->before);
      return found;
    }
    found.stages += found.prompts->stages;
  }
  return found;
}

std::vector<OutcomeTask> OutcomeTasksOf(const FoundNeedles& needles, const FoundPrompts* prompts,
                                        size_t conditions, size_t model, size_t seed) {
  std::vector<OutcomeTask> tasks;
  const auto add_block = [&](bool losses, int64_t block) {
    for (size_t first = 0; first < conditions;) {
      const size_t end = first == 0 ? 1 : std::min<size_t>(first + kConditionsPerTask, conditions);
      tasks.push_back({model, seed, losses, block, first, end});
      first = end;
    }
  };
  for (int64_t block = 0; block < needles.Blocks(seed); ++block) {
    add_block(false, block);
  }
  for (int64_t block = 0; prompts != nullptr && block < prompts->blocks; ++block) {
    add_block(true, block);
  }
  return tasks;
}

v1::ConditionOutcomes OutcomeMeasurement(const OutcomeTask& task,
                                         const std::vector<v1::Condition>& conditions,
                                         const FoundNeedles& needles, const FoundPrompts* prompts,
                                         const ModelFacts& model, size_t seeds) {
  v1::ConditionOutcomes outcomes;
  if (task.losses) {
    *outcomes.mutable_prompts() = prompts->At(task.model, task.seed, seeds, task.block);
  } else {
    *outcomes.mutable_prompts() = needles.Block(model, task.seed, task.block);
    outcomes.set_answer_tokens(kAnswerTokens);
  }
  for (size_t c = task.first; c < task.end; ++c) {
    *outcomes.add_conditions() = conditions[c];
  }
  return outcomes;
}

}  // namespace ropelab::experiments
