#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/experiments/model_names.h"
#include "server/experiments/prompt_stages.h"
#include "server/experiments/rank_analysis.h"

namespace ropelab::experiments {
namespace {

// The views of one model and seed. They are asked of the first block alone, which holds the prompt that they
// show: the other blocks' tasks stay those of an analysis without views.
absl::Status AddViews(const v1::RankAnalysis& analysis, const Context& context, const ModelFacts& model,
                      const std::string& label, uint64_t seed, v1::QueryKeyProfile& profile) {
  ROPELAB_ASSIGN_OR_RETURN(const std::vector<NamedHead> heads,
                           HeadsOf(analysis.heads(), context, label, static_cast<int64_t>(seed)));
  if (heads.empty()) {
    return absl::OkStatus();
  }
  for (const NamedHead& head : heads) {
    v1::MeasuredHead& named = *profile.add_heads();
    named.set_layer(static_cast<int32_t>(head.layer));
    named.set_head(static_cast<int32_t>(head.head));
  }
  const int64_t bytes = ViewBytes(model.config, analysis.block(), heads);
  if (bytes > kMostViewBytes) {
    return absl::FailedPreconditionError(
        absl::StrCat("rank_analysis.block: ", analysis.block(), " rows of the ", heads.size(),
                     " heads found on model ", label, " take ", bytes >> 20, " MiB; at most ",
                     kMostViewBytes >> 20, " MiB: fewer rows, or fewer heads (slash_dominant's top)"));
  }
  profile.set_view_rows(analysis.block());
  profile.set_hidden_view(analysis.hidden_view());
  return absl::OkStatus();
}

v1::WeightProfile VocabularyOf(const v1::RankAnalysis& analysis, const ModelFacts& model, uint64_t seed) {
  v1::WeightProfile profile;
  profile.set_energy(analysis.energy());
  v1::VocabularyProfile& vocabulary = *profile.mutable_vocabulary();
  vocabulary.set_tokens(model.config.vocabulary());
  vocabulary.set_norm_weight(analysis.norm_weight());
  vocabulary.set_seed(seed);
  vocabulary.set_random_vectors(kRandomVectors);
  return profile;
}

absl::StatusOr<StagePlan> PlanMeasurements(const v1::ExperimentSpec& spec, const Context& context,
                                           const FoundPrompts& found) {
  const v1::RankAnalysis& analysis = spec.rank_analysis();
  const size_t seeds = static_cast<size_t>(spec.seeds_size());
  const RankLayout layout(spec, found.blocks);
  StagePlan plan;
  for (int64_t index = 0; index < layout.tasks(); ++index) {
    const RankTask at = layout.At(index);
    const ModelFacts& model = context.models[at.model];
    const uint64_t seed = spec.seeds(static_cast<int>(at.seed));
    PlannedTask task;
    task.model = model.name;
    ROPELAB_ASSIGN_OR_RETURN(*task.measurement.mutable_model(), IdentityOf(spec, model));
    if (at.part == RankPart::kWeights) {
      task.measurement.mutable_weight_profile()->set_energy(analysis.energy());
    } else if (at.part == RankPart::kVocabulary) {
      *task.measurement.mutable_weight_profile() = VocabularyOf(analysis, model, seed);
    } else {
      v1::QueryKeyProfile& profile = *task.measurement.mutable_query_key_profile();
      *profile.mutable_prompts() = found.At(at.model, at.seed, seeds, at.block);
      profile.set_energy(analysis.energy());
      profile.set_hidden_stage(analysis.hidden_stage());
      if (analysis.has_block() && at.block == 0) {
        ROPELAB_RETURN_IF_ERROR(
            AddViews(analysis, context, model, spec.models(static_cast<int>(at.model)), seed, profile));
      }
    }
    plan.push_back(std::move(task));
  }
  return plan;
}

}  // namespace

RankLayout::RankLayout(const v1::ExperimentSpec& spec, int64_t blocks)
    : models_(spec.models_size()), vocabulary_(spec.rank_analysis().vocabulary()) {
  per_seed_ = blocks + (vocabulary_ ? 1 : 0);
  per_model_ = 1 + spec.seeds_size() * per_seed_;
}

RankTask RankLayout::At(int64_t index) const {
  RankTask task;
  task.model = static_cast<size_t>(index / per_model_);
  const int64_t of_model = index % per_model_;
  if (of_model == 0) {
    return task;
  }
  task.seed = static_cast<size_t>((of_model - 1) / per_seed_);
  const int64_t of_seed = (of_model - 1) % per_seed_;
  if (vocabulary_ && of_seed == 0) {
    task.part = RankPart::kVocabulary;
    return task;
  }
  task.part = RankPart::kPrompts;
  task.block = of_seed - (vocabulary_ ? 1 : 0);
  return task;
}

int64_t ViewBytes(const v1::ModelConfig& config, int64_t rows, const std::vector<NamedHead>& heads) {
  std::set<int64_t> layers;
  for (const NamedHead& head : heads) {
    layers.insert(head.layer);
  }
  const int64_t matrices = 2 * static_cast<int64_t>(heads.size()) + static_cast<int64_t>(layers.size());
  return matrices * rows * config.head_dim() * static_cast<int64_t>(sizeof(float));
}

std::vector<NamedHead> ListedHeads(const v1::HeadSet& set) {
  std::vector<NamedHead> heads;
  for (const v1::Head& head : set.list().head()) {
    heads.push_back({head.layer(), head.head(), std::nullopt});
  }
  return heads;
}

absl::StatusOr<std::optional<StagePlan>> RankAnalysisExperiment::Plan(const v1::ExperimentSpec& spec,
                                                                      const Context& context, int64_t stage,
                                                                      StageReadings& readings) const {
  ROPELAB_ASSIGN_OR_RETURN(FoundPrompts found,
                           FindPrompts(spec.rank_analysis().prompts(), spec, context, stage, readings));
  if (!found.before.empty()) {
    return std::optional<StagePlan>(std::move(found.before));
  }
  if (stage > found.stages + 1) {
    return std::optional<StagePlan>();
  }
  ROPELAB_ASSIGN_OR_RETURN(StagePlan plan, PlanMeasurements(spec, context, found));
  return std::optional<StagePlan>(std::move(plan));
}

}  // namespace ropelab::experiments
