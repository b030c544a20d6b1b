#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/experiments/head_set.h"
#include "server/experiments/model_names.h"
#include "server/experiments/prompt_stages.h"
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

absl::StatusOr<StagePlan> PlanProfiles(const v1::ExperimentSpec& spec, const Context& context,
                                       const FoundPrompts& found) {
  const v1::SlashDetection& detection = spec.slash_detection();
  StagePlan plan;
  const size_t seeds = static_cast<size_t>(spec.seeds_size());
  for (size_t m = 0; m < context.models.size(); ++m) {
    const ModelFacts& model = context.models[m];
    ROPELAB_ASSIGN_OR_RETURN(const v1::ModelIdentity identity, IdentityOf(spec, model));
    for (size_t s = 0; s < seeds; ++s) {
      const uint64_t seed = spec.seeds(static_cast<int>(s));
      v1::SlashProfile mapped;
      if (detection.has_maps()) {
        ROPELAB_RETURN_IF_ERROR(
            AddMaps(detection.maps(), context, spec.models(static_cast<int>(m)), seed, mapped));
      }
      const std::vector<MeasuredRange> ranges = MeasuredRanges(detection);
      for (size_t range = 0; range < ranges.size(); ++range) {
        for (int64_t block = 0; block < found.blocks; ++block) {
          PlannedTask task;
          task.model = model.name;
          *task.measurement.mutable_model() = identity;
          v1::SlashProfile& profile = *task.measurement.mutable_slash_profile();
          profile = ProfileOf(detection, ranges[range], found.At(m, s, seeds, block));
          if (range == 0) {
            profile.MergeFrom(mapped);
          }
          plan.push_back(std::move(task));
        }
      }
    }
  }
  return plan;
}

}  // namespace

absl::StatusOr<std::optional<StagePlan>> SlashDetectionExperiment::Plan(const v1::ExperimentSpec& spec,
                                                                        const Context& context, int64_t stage,
                                                                        StageReadings& readings) const {
  ROPELAB_ASSIGN_OR_RETURN(FoundPrompts found,
                           FindPrompts(spec.slash_detection().prompts(), spec, context, stage, readings));
  if (!found.before.empty()) {
    return std::optional<StagePlan>(std::move(found.before));
  }
  if (stage > found.stages + 1) {
    return std::optional<StagePlan>();
  }
  ROPELAB_ASSIGN_OR_RETURN(StagePlan plan, PlanProfiles(spec, context, found));
  return std::optional<StagePlan>(std::move(plan));
}

}  // namespace ropelab::experiments
