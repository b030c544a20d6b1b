#include "server/experiments/slash_groups.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/experiments/model_names.h"
#include "server/experiments/prompts.h"

namespace ropelab::experiments {
namespace {

std::vector<DetectionGroup> GroupsOf(const v1::ExperimentSpec& spec, const Context& context,
                                     const std::vector<MeasuredRange>& ranges) {
  std::vector<DetectionGroup> groups;
  for (size_t i = 0; i < context.models.size(); ++i) {
    for (const uint64_t seed : spec.seeds()) {
      DetectionGroup group;
      group.model = &context.models[i];
      group.label = spec.models(static_cast<int>(i));
      group.dtype = v1::Dtype::Value_Name(DtypeOf(spec, context.models[i]));
      group.seed = static_cast<int64_t>(seed);
      for (const MeasuredRange& range : ranges) {
        group.ranges.emplace_back(context.models[i], range);
      }
      groups.push_back(std::move(group));
    }
  }
  return groups;
}

absl::Status AddReading(const v1::SlashProfile& profile, const v1::Reading& reading, int64_t task_index,
                        size_t range, DetectionGroup& group) {
  if (profile.map_size() > 0) {
    for (const v1::MeasuredHead& head : profile.heads()) {
      group.maps.Expect({head.layer(), head.head()});
    }
  }
  if (reading.has_slash_block() && reading.slash_block().removal() == 0) {
    return group.ranges[range].Add(reading.slash_block());
  }
  if (reading.has_map_block()) {
    return group.maps.Add(reading.map_block());
  }
  return absl::InternalError(absl::StrCat("task ", task_index, " is no slash profile of this plan"));
}

}  // namespace

absl::StatusOr<std::optional<int64_t>> ProfileStage(const v1::ExperimentSpec& spec, const Context& context,
                                                    int64_t stage, StageReadings& readings) {
  const v1::PromptSource& prompts = spec.slash_detection().prompts();
  if (!prompts.has_corpus()) {
    return std::optional<int64_t>(NeedsSampling(prompts) ? 2 : 1);
  }
  ROPELAB_ASSIGN_OR_RETURN(const CorpusStages stages,
                           FollowCorpus(prompts.corpus(), spec, context, stage, readings));
  return stages.lengths.empty() ? std::optional<int64_t>(stages.lengths_stages + 1) : std::nullopt;
}

absl::StatusOr<std::vector<DetectionGroup>> ReadDetection(const v1::ExperimentSpec& spec,
                                                          const Context& context, StageReadings& readings,
                                                          const std::vector<MeasuredRange>& ranges) {
  if (context.models.size() != static_cast<size_t>(spec.models_size())) {
    return absl::InternalError(absl::StrCat("the spec names ", spec.models_size(), " models, but ",
                                            context.models.size(), " were given to reduce it"));
  }
  std::vector<DetectionGroup> groups = GroupsOf(spec, context, ranges);
  const v1::PromptSource& prompts = spec.slash_detection().prompts();
  int64_t stage = NeedsSampling(prompts) ? 2 : 1;
  if (prompts.has_corpus()) {
    ROPELAB_ASSIGN_OR_RETURN(
        CorpusStages stages,
        FollowCorpus(prompts.corpus(), spec, context, std::numeric_limits<int64_t>::max(), readings));
    for (size_t i = 0; i < groups.size(); ++i) {
      groups[i].choice = std::move(stages.choices[i]);
      groups[i].in_corpus = stages.in_corpus;
    }
    stage = stages.lengths_stages + 1;
  }
  const int64_t count = ShapeOf(prompts).value_or(PromptShape()).count;
  const int64_t blocks = BlockCount(count);
  const int64_t per_group = blocks * static_cast<int64_t>(ranges.size());
  ROPELAB_RETURN_IF_ERROR(readings.ForEach(
      stage,
      [&](int64_t task_index, const v1::Measurement& measurement,
          const v1::Reading& reading) -> absl::Status {
        const size_t group = static_cast<size_t>(task_index / per_group);
        if (group >= groups.size()) {
          return absl::InternalError(absl::StrCat("task ", task_index, " is not of this plan"));
        }
        return AddReading(measurement.slash_profile(), reading, task_index,
                          static_cast<size_t>(task_index % per_group / blocks), groups[group]);
      }));
  for (const DetectionGroup& group : groups) {
    for (const SlashAccumulator& range : group.ranges) {
      ROPELAB_RETURN_IF_ERROR(range.CheckComplete(count));
    }
    ROPELAB_RETURN_IF_ERROR(group.maps.CheckComplete(count));
  }
  return groups;
}

HeadFinding FindingOf(const v1::SlashDetection& detection, const SlashAccumulator& scores, int64_t layer,
                      int64_t head) {
  HeadFinding finding;
  for (int64_t offset = detection.offsets().first(); offset <= detection.offsets().last(); ++offset) {
    if (!scores.Reachable(layer, offset)) {
      break;  // and so is every larger one
    }
    const double score = scores.At(layer, head, offset).mean;
    if (!finding.best_offset || score > scores.At(layer, head, *finding.best_offset).mean) {
      finding.best_offset = offset;
    }
    if (score >= detection.threshold()) {
      finding.dominant_offsets.push_back(offset);
    }
  }
  return finding;
}

}  // namespace ropelab::experiments
