#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "common/status_macros.h"
#include "server/experiments/frequency_analysis.h"
#include "server/experiments/frequency_groups.h"
#include "server/experiments/frequency_readings.h"
#include "server/experiments/model_names.h"
#include "server/experiments/prompt_stages.h"

namespace ropelab::experiments {
namespace {

template <typename Request>
void AddHeads(const std::vector<NamedHead>& heads, bool offsets, Request& request) {
  for (const NamedHead& head : heads) {
    v1::MeasuredHead& named = *request.add_heads();
    named.set_layer(static_cast<int32_t>(head.layer));
    named.set_head(static_cast<int32_t>(head.head));
    if (offsets && head.offset.has_value()) {
      named.set_offset(*head.offset);
    }
  }
}

v1::FrequencyProfile ProfileOf(const FrequencyGroup& group, const std::vector<int64_t>& rows) {
  v1::FrequencyProfile profile;
  AddHeads(group.heads, true, profile);
  profile.set_skip_first(kFrequencySkipFirst);
  for (const int64_t row : rows) {
    profile.add_rows(row - 1);
  }
  return profile;
}

// Scores at the heads' own offsets. With rows ALL a score does not depend on the profile's range, so the
// least range that holds every offset will do.
v1::SlashProfile RemovalProfileOf(const FrequencyGroup& group) {
  v1::SlashProfile profile;
  const auto nearer = [](const NamedHead& a, const NamedHead& b) { return a.offset < b.offset; };
  const auto [first, last] = std::minmax_element(group.heads.begin(), group.heads.end(), nearer);
  profile.set_first_offset(first->offset.value_or(0));
  profile.set_last_offset(last->offset.value_or(0));
  profile.set_skip_first(kFrequencySkipFirst);
  profile.set_rows(v1::Rows::ALL);
  profile.set_denominator(v1::Denominator::KEPT);
  AddHeads(group.heads, true, profile);
  for (const std::vector<int32_t>& list : group.removals.lists) {
    profile.add_removals()->mutable_pairs()->Add(list.begin(), list.end());
  }
  return profile;
}

v1::FrequencyFits FitsOf(const FrequencyGroup& group, const FrequencyMeasures& measures) {
  v1::FrequencyFits fits;
  AddHeads(group.heads, false, fits);
  for (const HeadMeasures& head : measures.heads) {
    v1::MeanVectors& means = *fits.add_means();
    means.mutable_query()->Add(head.query.begin(), head.query.end());
    means.mutable_key()->Add(head.key.begin(), head.key.end());
  }
  return fits;
}

// What all blocks of a group's part ask alike; the prompts are the block's own.
v1::Measurement MeasurementOf(FrequencyPart part, const FrequencyGroup& group,
                              const std::vector<int64_t>& rows,
                              const std::vector<FrequencyMeasures>& measures, size_t index) {
  v1::Measurement measurement;
  switch (part) {
    case FrequencyPart::kProfile:
      *measurement.mutable_frequency_profile() = ProfileOf(group, rows);
      break;
    case FrequencyPart::kRemovals:
      *measurement.mutable_slash_profile() = RemovalProfileOf(group);
      break;
    case FrequencyPart::kFits:
      *measurement.mutable_frequency_fits() = FitsOf(group, measures[index]);
      break;
  }
  return measurement;
}

absl::StatusOr<StagePlan> PlanTasks(const v1::ExperimentSpec& spec, const std::vector<FrequencyGroup>& groups,
                                    const std::vector<FrequencyTask>& tasks,
                                    const std::vector<FrequencyMeasures>& measures,
                                    const FoundPrompts& found) {
  const v1::FrequencyAnalysis& analysis = spec.frequency_analysis();
  const PromptShape shape = ShapeOf(analysis.prompts()).value_or(PromptShape());
  const std::vector<int64_t> rows = HeatRowsOf(analysis, shape, AllHeadsOf(groups));
  StagePlan plan;
  v1::Measurement alike;
  for (const FrequencyTask& at : tasks) {
    const FrequencyGroup& group = groups[at.group];
    if (at.block == 0) {
      alike = MeasurementOf(at.part, group, rows, measures, at.group);
      ROPELAB_ASSIGN_OR_RETURN(*alike.mutable_model(), IdentityOf(spec, *group.model));
    }
    PlannedTask task;
    task.model = group.model->name;
    task.measurement = alike;
    const v1::PromptBlock& prompts =
        found.At(group.model_index, group.seed_index, static_cast<size_t>(spec.seeds_size()), at.block);
    if (at.part == FrequencyPart::kProfile) {
      *task.measurement.mutable_frequency_profile()->mutable_prompts() = prompts;
    } else if (at.part == FrequencyPart::kRemovals) {
      *task.measurement.mutable_slash_profile()->mutable_prompts() = prompts;
    } else {
      *task.measurement.mutable_frequency_fits()->mutable_prompts() = prompts;
    }
    plan.push_back(std::move(task));
  }
  return plan;
}

}  // namespace

absl::StatusOr<std::optional<StagePlan>> FrequencyAnalysisExperiment::Plan(const v1::ExperimentSpec& spec,
                                                                           const Context& context,
                                                                           int64_t stage,
                                                                           StageReadings& readings) const {
  ROPELAB_ASSIGN_OR_RETURN(const std::vector<FrequencyGroup> groups, FrequencyGroupsOf(spec, context));
  if (AllHeadsOf(groups).empty()) {
    return std::optional<StagePlan>();
  }
  ROPELAB_ASSIGN_OR_RETURN(FoundPrompts found,
                           FindPrompts(spec.frequency_analysis().prompts(), spec, context, stage, readings));
  if (!found.before.empty()) {
    return std::optional<StagePlan>(std::move(found.before));
  }
  std::vector<FrequencyTask> tasks;
  std::vector<FrequencyMeasures> measures;
  if (stage == found.stages + 1) {
    tasks = ProfileTasks(groups, found.blocks);
  } else if (stage == found.stages + 2) {
    tasks = FitTasks(groups, found.blocks);
    ROPELAB_ASSIGN_OR_RETURN(measures,
                             ReadProfiles(spec, groups, found, readings, FrequencyReading::kMeansAlone));
  } else {
    return std::optional<StagePlan>();
  }
  ROPELAB_ASSIGN_OR_RETURN(StagePlan plan, PlanTasks(spec, groups, tasks, measures, found));
  return std::optional<StagePlan>(std::move(plan));
}

}  // namespace ropelab::experiments
