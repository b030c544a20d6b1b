#include "server/experiments/retrieval_groups.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/experiments/model_names.h"

namespace ropelab::experiments {
namespace {

std::vector<RetrievalGroup> EmptyGroups(const v1::ExperimentSpec& spec, const Context& context,
                                        const FoundNeedles& found) {
  std::vector<RetrievalGroup> groups;
  for (size_t m = 0; m < context.models.size(); ++m) {
    const ModelFacts& model = context.models[m];
    for (size_t s = 0; s < found.seeds.size(); ++s) {
      const DetectionPlace place = {spec.models(static_cast<int>(m)), DtypeOf(spec, model), std::nullopt,
                                    spec.seeds(static_cast<int>(s))};
      groups.push_back({&model, place, DetectionScores(spec.retrieval_detection(), model.config),
                        static_cast<int64_t>(found.seeds[s].kept.size()),
                        static_cast<int64_t>(found.seeds[s].dropped.size())});
    }
  }
  return groups;
}

}  // namespace

absl::StatusOr<std::vector<RetrievalGroup>> ReadRetrieval(const v1::ExperimentSpec& spec,
                                                          const Context& context, StageReadings& readings,
                                                          NeedleSamplesTable& samples) {
  if (context.models.size() != static_cast<size_t>(spec.models_size())) {
    return absl::InternalError(absl::StrCat("the spec names ", spec.models_size(), " models, but ",
                                            context.models.size(), " were given to reduce it"));
  }
  ROPELAB_ASSIGN_OR_RETURN(const FoundNeedles found,
                           FindNeedles(spec.retrieval_detection().needles(), v1::NeedlePrompts::DETECTION,
                                       {spec.seeds().begin(), spec.seeds().end()}, context.models, context,
                                       std::numeric_limits<int64_t>::max(), readings));
  std::vector<RetrievalGroup> groups = EmptyGroups(spec, context, found);
  std::vector<size_t> group_of_task;
  for (size_t group = 0; group < groups.size(); ++group) {
    const int64_t blocks = found.Blocks(group % found.seeds.size());
    group_of_task.insert(group_of_task.end(), static_cast<size_t>(blocks), group);
  }
  ROPELAB_RETURN_IF_ERROR(readings.ForEach(
      found.stages + 1,
      [&](int64_t task, const v1::Measurement& measurement, const v1::Reading& reading) -> absl::Status {
        if (static_cast<size_t>(task) >= group_of_task.size()) {
          return absl::InternalError(
              absl::StrCat("task ", task, " gave a reading that is no part of this plan"));
        }
        RetrievalGroup& group = groups[group_of_task[static_cast<size_t>(task)]];
        ROPELAB_RETURN_IF_ERROR(group.scores.Add(measurement, reading));
        const v1::RealisedNeedle& realised = reading.needle_heads().realised();
        ROPELAB_ASSIGN_OR_RETURN(const v1::NeedleSample sample,
                                 NeedleSampleOf(measurement.needle_attention().prompts(), realised.sample()));
        samples.AddKept(group.place.label, v1::Dtype::Value_Name(group.place.dtype), context.numerics_class,
                        group.place.seed, sample, realised);
        return absl::OkStatus();
      }));
  for (size_t i = 0; i < groups.size(); ++i) {
    const RetrievalGroup& group = groups[i];
    const int64_t read = group.scores.cells().front().samples;
    if (read != group.kept) {
      return absl::InternalError(absl::StrCat("model ", group.place.label, ", seed ", group.place.seed, ": ",
                                              read, " needle samples were read, not ", group.kept));
    }
    for (const v1::NeedleSample& sample : found.seeds[i % found.seeds.size()].dropped) {
      samples.AddDropped(group.place.label, v1::Dtype::Value_Name(group.place.dtype), context.numerics_class,
                         group.place.seed, sample);
    }
  }
  return groups;
}

}  // namespace ropelab::experiments
