#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/experiments/corpus_stages.h"
#include "server/experiments/head_set.h"
#include "server/experiments/model_names.h"
#include "server/experiments/prompts.h"
#include "server/experiments/slash_detection.h"

namespace ropelab::experiments {
namespace {

v1::SlashProfile ProfileOf(const v1::SlashDetection& detection, const MeasuredRange& range,
                           v1::PromptBlock prompts) {
  v1::SlashProfile profile;
  *profile.mutable_prompts() = std::move(prompts);
  profile.set_first_offset(range.first);
  profile.set_last_offset(range.last);
  profile.set_skip_first(detection.skip_first());
  profile.set_rows(range.rows);
  profile.set_denominator(detection.denominator());
  return profile;
}

absl::StatusOr<StagePlan> PlanSampling(const v1::ExperimentSpec& spec, const Context& context,
                                       int64_t blocks) {
  StagePlan plan;
  for (const ModelFacts& model : context.models) {
    ROPELAB_ASSIGN_OR_RETURN(const v1::ModelIdentity identity, IdentityOf(spec, model));
    for (const uint64_t seed : spec.seeds()) {
      for (int64_t block = 0; block < blocks; ++block) {
        PlannedTask task;
        task.model = model.name;
        *task.measurement.mutable_model() = identity;
        *task.measurement.mutable_sampling() =
            SamplingOf(spec.slash_detection().prompts(), seed, model, block);
        plan.push_back(std::move(task));
      }
    }
  }
  return plan;
}

// Of which heads the first range's tasks take maps.
absl::Status AddMaps(const v1::AverageMaps& maps, const Context& context, const std::string& label,
                     uint64_t seed, v1::SlashProfile& profile) {
  ROPELAB_ASSIGN_OR_RETURN(const std::vector<NamedHead> heads,
                           HeadsOf(maps.heads(), context, label, static_cast<int64_t>(seed)));
  if (heads.size() > static_cast<size_t>(kMostMappedHeads)) {
    return absl::FailedPreconditionError(
        absl::StrCat("maps.heads: ", heads.size(), " heads were found and at most ", kMostMappedHeads,
                     " are mapped in one experiment; say top: ", kMostMappedHeads));
  }
  for (const NamedHead& head : heads) {
    v1::MeasuredHead& named = *profile.add_heads();
    named.set_layer(static_cast<int32_t>(head.layer));
    named.set_head(static_cast<int32_t>(head.head));
  }
  profile.set_map_size(heads.empty() ? 0 : maps.size());
  return absl::OkStatus();
}

// `found` holds the blocks, model by model and seed by seed, when earlier stages have found the prompts; else
// it is empty.
absl::StatusOr<StagePlan> PlanProfiles(const v1::ExperimentSpec& spec, const Context& context, int64_t blocks,
                                       const std::vector<v1::PromptBlock>& found) {
  const v1::SlashDetection& detection = spec.slash_detection();
  StagePlan plan;
  size_t group = 0;
  for (size_t m = 0; m < context.models.size(); ++m) {
    const ModelFacts& model = context.models[m];
    ROPELAB_ASSIGN_OR_RETURN(const v1::ModelIdentity identity, IdentityOf(spec, model));
    for (const uint64_t seed : spec.seeds()) {
      v1::SlashProfile mapped;
      if (detection.has_maps()) {
        ROPELAB_RETURN_IF_ERROR(
            AddMaps(detection.maps(), context, spec.models(static_cast<int>(m)), seed, mapped));
      }
      const std::vector<MeasuredRange> ranges = MeasuredRanges(detection);
      for (size_t range = 0; range < ranges.size(); ++range) {
        for (int64_t block = 0; block < blocks; ++block) {
          PlannedTask task;
          task.model = model.name;
          *task.measurement.mutable_model() = identity;
          v1::SlashProfile& profile = *task.measurement.mutable_slash_profile();
          profile = ProfileOf(detection, ranges[range],
                              found.empty()
                                  ? PromptBlockOf(detection.prompts(), seed, model, block)
                                  : found[group * static_cast<size_t>(blocks) + static_cast<size_t>(block)]);
          if (range == 0) {
            profile.MergeFrom(mapped);
          }
          plan.push_back(std::move(task));
        }
      }
      ++group;
    }
  }
  return plan;
}

std::vector<v1::PromptBlock> CorpusBlocks(const v1::ExperimentSpec& spec, const Context& context,
                                          int64_t blocks, const CorpusStages& stages) {
  std::vector<v1::PromptBlock> found;
  const size_t seeds = static_cast<size_t>(spec.seeds_size());
  for (size_t group = 0; group < stages.choices.size(); ++group) {
    for (int64_t block = 0; block < blocks; ++block) {
      found.push_back(CorpusBlockOf(spec.slash_detection().prompts().corpus(), stages.corpus,
                                    stages.choices[group], context.models[group / seeds], block));
    }
  }
  return found;
}

absl::StatusOr<std::optional<StagePlan>> PlanWithCorpus(const v1::ExperimentSpec& spec,
                                                        const Context& context, int64_t stage, int64_t blocks,
                                                        StageReadings& readings) {
  ROPELAB_ASSIGN_OR_RETURN(CorpusStages stages, FollowCorpus(spec.slash_detection().prompts().corpus(), spec,
                                                             context, stage, readings));
  if (!stages.lengths.empty()) {
    return std::optional<StagePlan>(std::move(stages.lengths));
  }
  if (stage > stages.lengths_stages + 1) {
    return std::optional<StagePlan>();
  }
  ROPELAB_ASSIGN_OR_RETURN(StagePlan plan,
                           PlanProfiles(spec, context, blocks, CorpusBlocks(spec, context, blocks, stages)));
  return std::optional<StagePlan>(std::move(plan));
}

}  // namespace

absl::StatusOr<std::optional<StagePlan>> SlashDetectionExperiment::Plan(const v1::ExperimentSpec& spec,
                                                                        const Context& context, int64_t stage,
                                                                        StageReadings& readings) const {
  const v1::PromptSource& prompts = spec.slash_detection().prompts();
  const std::optional<PromptShape> shape = ShapeOf(prompts);
  if (!shape.has_value()) {
    return absl::InternalError("slash_detection.prompts: the spec was not resolved before it was planned");
  }
  const int64_t blocks = BlockCount(shape->count);
  if (prompts.has_corpus()) {
    return PlanWithCorpus(spec, context, stage, blocks, readings);
  }
  const int64_t profile_stage = NeedsSampling(prompts) ? 2 : 1;
  if (stage > profile_stage) {
    return std::optional<StagePlan>();
  }
  if (stage < profile_stage) {
    ROPELAB_ASSIGN_OR_RETURN(StagePlan plan, PlanSampling(spec, context, blocks));
    return std::optional<StagePlan>(std::move(plan));
  }
  std::vector<v1::PromptBlock> sampled;
  if (NeedsSampling(prompts)) {
    ROPELAB_ASSIGN_OR_RETURN(sampled, SampledBlocks(readings, 1));
    const size_t expected =
        context.models.size() * static_cast<size_t>(spec.seeds_size()) * static_cast<size_t>(blocks);
    if (sampled.size() != expected) {
      return absl::InternalError(
          absl::StrCat("the sampling stage gave ", sampled.size(), " blocks of prompts, not ", expected));
    }
  }
  ROPELAB_ASSIGN_OR_RETURN(StagePlan plan, PlanProfiles(spec, context, blocks, sampled));
  return std::optional<StagePlan>(std::move(plan));
}

}  // namespace ropelab::experiments
