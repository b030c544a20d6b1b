#include "server/experiments/rank_readings.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/experiments/head_set.h"
#include "server/experiments/model_names.h"
#include "server/experiments/prompt_stages.h"
#include "server/experiments/prompts.h"

namespace ropelab::experiments {
namespace {

template <typename Values>
void AddTo(const Values& values, std::vector<double>& sums) {
  for (int i = 0; i < values.size(); ++i) {
    sums[static_cast<size_t>(i)] += static_cast<double>(values[i]);
  }
}

absl::Status SizeError(const std::string& what, int64_t layer, const ModelFacts& model) {
  return absl::InternalError(absl::StrCat(what, " of layer ", layer, " does not hold ",
                                          model.config.query_heads(), " query heads and ",
                                          model.config.kv_heads(), " KV heads of model ", model.name));
}

absl::Status AddSpectra(const v1::LayerSpectra& spectra, RankGroup& group) {
  const int heads = static_cast<int>(group.model->config.query_heads());
  const int kv_heads = static_cast<int>(group.model->config.kv_heads());
  if (spectra.layer() < 0 || spectra.layer() >= static_cast<int64_t>(group.layers.size())) {
    return absl::InternalError(absl::StrCat("a spectrum of layer ", spectra.layer(), ", of ",
                                            group.layers.size(), " in model ", group.model->name));
  }
  if (spectra.query_r1_size() != heads || spectra.query_rank_size() != heads ||
      spectra.query_norm_rv_size() != heads || spectra.key_r1_size() != kv_heads ||
      spectra.key_rank_size() != kv_heads || spectra.key_norm_rv_size() != kv_heads) {
    return SizeError("a spectrum", spectra.layer(), *group.model);
  }
  LayerMeans& sums = group.layers[static_cast<size_t>(spectra.layer())];
  if (spectra.sample() != sums.prompts) {
    return absl::InternalError(absl::StrCat("layer ", spectra.layer(), " of model ", group.label, ", seed ",
                                            group.seed, ": sample ", spectra.sample(),
                                            " was given where sample ", sums.prompts, " is due"));
  }
  ++sums.prompts;
  AddTo(spectra.query_r1(), sums.query.r1);
  AddTo(spectra.query_rank(), sums.query.rank);
  AddTo(spectra.query_norm_rv(), sums.query.norm_rv);
  AddTo(spectra.key_r1(), sums.key.r1);
  AddTo(spectra.key_rank(), sums.key.rank);
  AddTo(spectra.key_norm_rv(), sums.key.norm_rv);
  sums.hidden_r1 += spectra.hidden_r1();
  sums.hidden_rank += static_cast<double>(spectra.hidden_rank());
  return absl::OkStatus();
}

absl::Status AddWeights(const v1::WeightSpectra& spectra, RankGroup& group) {
  const v1::ModelConfig& config = group.model->config;
  if (spectra.layer() != static_cast<int64_t>(group.weights.size())) {
    return absl::InternalError(absl::StrCat("the weights of layer ", spectra.layer(),
                                            " were given where layer ", group.weights.size(), " is due"));
  }
  if (spectra.query_r1_size() != config.query_heads() || spectra.query_rank_size() != config.query_heads() ||
      spectra.key_r1_size() != config.kv_heads() || spectra.key_rank_size() != config.kv_heads()) {
    return SizeError("a spectrum of weights", spectra.layer(), *group.model);
  }
  group.weights.push_back(spectra);
  return absl::OkStatus();
}

absl::Status AddVocabulary(const v1::VocabularySide& side, RankGroup& group) {
  const v1::ModelConfig& config = group.model->config;
  const bool query = side.matrix() == v1::Matrix::QUERY;
  std::optional<v1::VocabularySide>& kept = query ? group.vocabulary_query : group.vocabulary_key;
  if ((!query && side.matrix() != v1::Matrix::KEY) || kept.has_value()) {
    return absl::InternalError(absl::StrCat("the vocabulary of model ", group.label, ", seed ", group.seed,
                                            ", gave its ", query ? "queries" : "keys", " twice"));
  }
  const int64_t heads = query ? config.query_heads() : config.kv_heads();
  if (side.r1_size() != heads || side.rank_size() != heads || side.aligned_r1_size() != heads ||
      side.aligned_rank_size() != heads || side.axis_rv_size() != heads || side.mean_norm_size() != heads ||
      side.cosines_size() != heads || (side.bias_norm_size() != 0 && side.bias_norm_size() != heads)) {
    return SizeError("the vocabulary", 0, *group.model);
  }
  if (side.tokens() != config.vocabulary() || side.random_rv_size() != kRandomVectors) {
    return absl::InternalError(absl::StrCat("the vocabulary gave ", side.tokens(), " tokens and ",
                                            side.random_rv_size(), " random vectors, not ",
                                            config.vocabulary(), " and ", kRandomVectors));
  }
  kept = side;
  return absl::OkStatus();
}

absl::Status AddViews(const v1::Reading& reading, RankGroup& group) {
  if (group.views.has_value() || reading.artifacts_size() != 1) {
    return absl::InternalError(
        absl::StrCat("the views of model ", group.label, ", seed ", group.seed, ", are not one file"));
  }
  group.views = reading.artifacts(0);
  return absl::OkStatus();
}

absl::Status AddReading(const RankTask& at, const v1::Reading& reading, int64_t task_index, RankGroup* groups,
                        size_t seeds) {
  if (at.part == RankPart::kWeights && reading.has_weight_spectra()) {
    for (size_t seed = 0; seed < seeds; ++seed) {
      ROPELAB_RETURN_IF_ERROR(AddWeights(reading.weight_spectra(), groups[at.model * seeds + seed]));
    }
    return absl::OkStatus();
  }
  RankGroup& group = groups[at.model * seeds + at.seed];
  if (at.part == RankPart::kVocabulary && reading.has_vocabulary_side()) {
    return AddVocabulary(reading.vocabulary_side(), group);
  }
  if (at.part == RankPart::kPrompts && reading.has_layer_spectra()) {
    return AddSpectra(reading.layer_spectra(), group);
  }
  if (at.part == RankPart::kPrompts && reading.has_views()) {
    return AddViews(reading, group);
  }
  return absl::InternalError(
      absl::StrCat("task ", task_index, " gave a reading that is no part of its measurement"));
}

absl::StatusOr<std::vector<RankGroup>> EmptyGroups(const v1::ExperimentSpec& spec, const Context& context,
                                                   FoundPrompts& found, int64_t prompts) {
  std::vector<RankGroup> groups;
  for (size_t i = 0; i < context.models.size(); ++i) {
    const ModelFacts& model = context.models[i];
    const size_t heads = static_cast<size_t>(model.config.query_heads());
    const size_t kv_heads = static_cast<size_t>(model.config.kv_heads());
    LayerMeans zero;
    zero.query.r1 = zero.query.rank = zero.query.norm_rv = std::vector<double>(heads, 0.0);
    zero.key.r1 = zero.key.rank = zero.key.norm_rv = std::vector<double>(kv_heads, 0.0);
    for (const uint64_t seed : spec.seeds()) {
      RankGroup group;
      group.model = &model;
      group.label = spec.models(static_cast<int>(i));
      group.dtype = v1::Dtype::Value_Name(DtypeOf(spec, model));
      group.seed = static_cast<int64_t>(seed);
      ROPELAB_ASSIGN_OR_RETURN(const std::vector<NamedHead> named,
                               HeadsOf(spec.rank_analysis().heads(), context, group.label, group.seed));
      for (const NamedHead& head : named) {
        group.dominant.insert({head.layer, head.head});
      }
      group.layers.assign(static_cast<size_t>(model.config.layers()), zero);
      if (!found.choices.empty()) {
        group.choice = std::move(found.choices[groups.size()]);
        group.in_corpus = found.in_corpus;
      }
      group.prompts = prompts;
      groups.push_back(std::move(group));
    }
  }
  return groups;
}

absl::Status CheckComplete(const v1::RankAnalysis& analysis, const RankGroup& group) {
  const std::string of = absl::StrCat("model ", group.label, ", seed ", group.seed, ": ");
  for (size_t layer = 0; layer < group.layers.size(); ++layer) {
    if (group.layers[layer].prompts != group.prompts) {
      return absl::InternalError(absl::StrCat(of, "layer ", layer, " has spectra of ",
                                              group.layers[layer].prompts, " prompts, not ", group.prompts));
    }
  }
  if (group.weights.size() != group.layers.size()) {
    return absl::InternalError(absl::StrCat(of, "the weights of ", group.weights.size(), " of ",
                                            group.layers.size(), " layers were given"));
  }
  if (analysis.vocabulary() && !(group.vocabulary_query.has_value() && group.vocabulary_key.has_value())) {
    return absl::InternalError(absl::StrCat(of, "the vocabulary's queries or keys were not given"));
  }
  const bool viewed = analysis.has_block() && !group.dominant.empty();
  if (viewed != group.views.has_value()) {
    return absl::InternalError(
        absl::StrCat(of, viewed ? "the views were not given" : "views were given that nobody asked for"));
  }
  return absl::OkStatus();
}

// From sums to means.
void Divide(RankGroup& group) {
  const double n = static_cast<double>(group.prompts);
  for (LayerMeans& layer : group.layers) {
    for (std::vector<double>* sums : {&layer.query.r1, &layer.query.rank, &layer.query.norm_rv, &layer.key.r1,
                                      &layer.key.rank, &layer.key.norm_rv}) {
      for (double& sum : *sums) {
        sum /= n;
      }
    }
    layer.hidden_r1 /= n;
    layer.hidden_rank /= n;
  }
}

}  // namespace

absl::StatusOr<std::vector<RankGroup>> ReadRanks(const v1::ExperimentSpec& spec, const Context& context,
                                                 StageReadings& readings) {
  if (context.models.size() != static_cast<size_t>(spec.models_size())) {
    return absl::InternalError(absl::StrCat("the spec names ", spec.models_size(), " models, but ",
                                            context.models.size(), " were given to reduce it"));
  }
  const v1::RankAnalysis& analysis = spec.rank_analysis();
  ROPELAB_ASSIGN_OR_RETURN(FoundPrompts found, FindPrompts(analysis.prompts(), spec, context,
                                                           std::numeric_limits<int64_t>::max(), readings));
  const int64_t prompts = ShapeOf(analysis.prompts()).value_or(PromptShape()).count;
  ROPELAB_ASSIGN_OR_RETURN(std::vector<RankGroup> groups, EmptyGroups(spec, context, found, prompts));
  const RankLayout layout(spec, found.blocks);
  ROPELAB_RETURN_IF_ERROR(readings.ForEach(
      found.stages + 1,
      [&](int64_t task_index, const v1::Measurement&, const v1::Reading& reading) -> absl::Status {
        if (task_index >= layout.tasks()) {
          return absl::InternalError(absl::StrCat("task ", task_index, " is not of this plan"));
        }
        return AddReading(layout.At(task_index), reading, task_index, groups.data(),
                          static_cast<size_t>(spec.seeds_size()));
      }));
  for (RankGroup& group : groups) {
    ROPELAB_RETURN_IF_ERROR(CheckComplete(analysis, group));
    Divide(group);
  }
  std::sort(groups.begin(), groups.end(), [](const RankGroup& a, const RankGroup& b) {
    return std::tie(a.label, a.dtype, a.seed) < std::tie(b.label, b.dtype, b.seed);
  });
  return groups;
}

}  // namespace ropelab::experiments
