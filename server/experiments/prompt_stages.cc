#include "server/experiments/prompt_stages.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/experiments/model_names.h"
#include "server/experiments/needles.h"
#include "server/experiments/prompts.h"

namespace ropelab::experiments {
namespace {

absl::StatusOr<StagePlan> PlanSampling(const v1::PromptSource& source, const v1::ExperimentSpec& spec,
                                       const Context& context, int64_t blocks) {
  StagePlan plan;
  for (const ModelFacts& model : context.models) {
    ROPELAB_ASSIGN_OR_RETURN(const v1::ModelIdentity identity, IdentityOf(spec, model));
    for (const uint64_t seed : spec.seeds()) {
      for (int64_t block = 0; block < blocks; ++block) {
        PlannedTask task;
        task.model = model.name;
        *task.measurement.mutable_model() = identity;
        *task.measurement.mutable_sampling() = SamplingOf(source, seed, model, block);
        plan.push_back(std::move(task));
      }
    }
  }
  return plan;
}

absl::Status FindSampled(const v1::PromptSource& source, const v1::ExperimentSpec& spec,
                         const Context& context, int64_t stage, StageReadings& readings,
                         FoundPrompts& found) {
  if (stage < 2) {
    ROPELAB_ASSIGN_OR_RETURN(found.before, PlanSampling(source, spec, context, found.blocks));
    return absl::OkStatus();
  }
  found.stages = 1;
  ROPELAB_ASSIGN_OR_RETURN(found.prompts, SampledBlocks(readings, 1));
  const size_t expected =
      context.models.size() * static_cast<size_t>(spec.seeds_size()) * static_cast<size_t>(found.blocks);
  if (found.prompts.size() != expected) {
    return absl::InternalError(
        absl::StrCat("the sampling stage gave ", found.prompts.size(), " blocks of prompts, not ", expected));
  }
  return absl::OkStatus();
}

absl::Status FindCorpus(const v1::CorpusPrompts& corpus, const v1::ExperimentSpec& spec,
                        const Context& context, int64_t stage, StageReadings& readings, FoundPrompts& found) {
  ROPELAB_ASSIGN_OR_RETURN(CorpusStages stages, FollowCorpus(corpus, spec, context, stage, readings));
  found.stages = stages.lengths_stages;
  found.in_corpus = stages.in_corpus;
  if (!stages.lengths.empty()) {
    found.before = std::move(stages.lengths);
    return absl::OkStatus();
  }
  const size_t seeds = static_cast<size_t>(spec.seeds_size());
  for (size_t group = 0; group < stages.choices.size(); ++group) {
    for (int64_t block = 0; block < found.blocks; ++block) {
      found.prompts.push_back(
          CorpusBlockOf(corpus, stages.corpus, stages.choices[group], context.models[group / seeds], block));
    }
  }
  found.choices = std::move(stages.choices);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FoundPrompts> FindPrompts(const v1::PromptSource& source, const v1::ExperimentSpec& spec,
                                         const Context& context, int64_t stage, StageReadings& readings) {
  const std::optional<PromptShape> shape = ShapeOf(source);
  if (!shape.has_value()) {
    return absl::InternalError("prompts: the spec was not resolved before it was planned");
  }
  FoundPrompts found;
  found.blocks = BlockCount(shape->count);
  if (source.has_corpus()) {
    ROPELAB_RETURN_IF_ERROR(FindCorpus(source.corpus(), spec, context, stage, readings, found));
    return found;
  }
  if (NeedsSampling(source)) {
    ROPELAB_RETURN_IF_ERROR(FindSampled(source, spec, context, stage, readings, found));
    return found;
  }
  for (const ModelFacts& model : context.models) {
    for (const uint64_t seed : spec.seeds()) {
      for (int64_t block = 0; block < found.blocks; ++block) {
        if (source.has_needle()) {
          ROPELAB_ASSIGN_OR_RETURN(v1::PromptBlock prompts,
                                   NeedlePromptBlock(source.needle(), seed, model, context, block));
          found.prompts.push_back(std::move(prompts));
        } else {
          found.prompts.push_back(PromptBlockOf(source, seed, model, block));
        }
      }
    }
  }
  return found;
}

}  // namespace ropelab::experiments
