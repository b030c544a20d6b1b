#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/experiments/low_rank.h"
#include "server/experiments/low_rank_edit.h"
#include "server/experiments/low_rank_readings.h"
#include "server/experiments/outcome_levels.h"
#include "server/experiments/outcome_tables.h"
#include "server/experiments/prompts.h"
#include "server/experiments/table_builder.h"

namespace ropelab::experiments {
namespace {

std::string TargetOf(const Matrices& matrices) {
  const bool query = Edits(matrices, v1::Matrix::QUERY), key = Edits(matrices, v1::Matrix::KEY);
  return query && key ? "both" : (query ? "query" : "key");
}

class Writer {
 public:
  Writer(const v1::LowRank& low_rank, const std::string& numerics_class)
      : low_rank_(low_rank),
        numerics_class_(numerics_class),
        conditions_(ConditionsTable()),
        outcomes_(OutcomesTable()),
        statistics_(StatisticsTable()) {
    const PromptShape shape = ShapeOf(low_rank.perplexity().prompts()).value_or(PromptShape());
    if (shape.shortest == shape.longest) {
      context_length_ = shape.longest;
    }
  }

  void Add(const LowRankGroup& group) {
    AddRow(group, 0, nullptr, std::nullopt);
    for (int rank = 0; rank < low_rank_.ranks_size(); ++rank) {
      for (size_t set = 0; set < group.conditions.sets.size(); ++set) {
        AddRow(group, group.conditions.At(static_cast<size_t>(rank), set), &group.conditions.sets[set],
               low_rank_.ranks(rank));
      }
    }
    AddOfSet(group, "");
    for (const v1::ControlHeads& control : low_rank_.controls()) {
      AddOfSet(group, ControlName(control));
      AddSharedGroups(group, ControlName(control));
    }
    if (group.answers.has_value()) {
      const int64_t kept = static_cast<int64_t>(group.answers->samples().size());
      AddStatistic(group, "needles_kept", {static_cast<double>(kept)}, kept + group.dropped);
      AddStatistic(group, "needles_dropped", {static_cast<double>(group.dropped)}, kept + group.dropped);
    }
    if (group.choice.has_value()) {
      AddStatistic(group, "corpus_documents_read", {static_cast<double>(group.choice->read)},
                   group.in_corpus);
      AddStatistic(group, "corpus_skipped", {static_cast<double>(group.choice->skipped)}, group.choice->read);
    }
  }

  std::vector<Table> Finish() {
    std::vector<Table> tables;
    tables.push_back(conditions_.Finish(true));
    if (low_rank_.has_needles()) {
      const bool whole = outcomes_.rows() <= kOutcomesWholeInSql;
      tables.push_back(outcomes_.Finish(whole));
    }
    tables.push_back(statistics_.Finish(true));
    return tables;
  }

 private:
  struct Value {
    std::optional<double> value = {}, low = {}, high = {};
    std::string because = {};  // where there is no value
  };

  // `set` is null, and there is no rank, for the model as it is.
  void AddRow(const LowRankGroup& group, size_t measured, const LowRankSet* set,
              std::optional<int64_t> rank) {
    ConditionKey key = {.model = group.label,
                        .dtype = group.dtype,
                        .numerics_class = numerics_class_,
                        .seed = group.seed,
                        .condition = set == nullptr ? "baseline" : "low_rank"};
    ConditionFigures figures = {.context_length = context_length_,
                                .samples = group.prompts,
                                .perplexity = group.Perplexity(measured)};
    if (set != nullptr) {
      key.target = TargetOf(low_rank_.matrices());
      key.heads = static_cast<int64_t>(set->heads.size());
      key.rank = rank;
      figures.saved_parameters =
          SavedParameters(group.model->config, set->heads, *rank, low_rank_.matrices());
      if (!set->control.empty()) {
        key.control = set->control;
        key.draw = set->draw;
      }
    }
    if (group.answers.has_value()) {
      AddNeedleRows(group, measured, key, figures);
    } else {
      AddConditionRow(key, figures, conditions_);
    }
  }

  // On all needles, where perplexity and spared parameters stand as well, then by context length and depth.
  void AddNeedleRows(const LowRankGroup& group, size_t measured, const ConditionKey& key,
                     const ConditionFigures& whole) {
    for (const OutcomeLevel& level : LevelsOf(group.answers->samples())) {
      ConditionFigures figures = {.context_length = level.context_length, .depth = level.depth};
      if (level.whole()) {
        figures.perplexity = whole.perplexity;
        figures.saved_parameters = whole.saved_parameters;
      }
      figures.accuracy = AccuracyOf(*group.answers, measured, level);
      figures.samples = static_cast<int64_t>(level.samples.size());
      AddConditionRow(key, figures, conditions_);
    }
    AddOutcomeRows(key, *group.answers, measured, outcomes_);
  }

  // The sets of a control, or with an empty name the named heads.
  std::vector<size_t> SetsOf(const LowRankGroup& group, const std::string& control) const {
    std::vector<size_t> sets;
    for (size_t set = 0; set < group.conditions.sets.size(); ++set) {
      if (group.conditions.sets[set].control == control) {
        sets.push_back(set);
      }
    }
    return sets;
  }

  void AddOfSet(const LowRankGroup& group, const std::string& control) {
    const std::vector<size_t> sets = SetsOf(group, control);
    const std::string set = control.empty() ? "named" : control;
    const v1::ModelConfig& config = group.model->config;
    const size_t heads = sets.empty() ? 0 : group.conditions.sets[sets.front()].heads.size();
    AddStatistic(group, "low_rank_heads", {static_cast<double>(heads)},
                 control.empty() ? config.layers() * config.query_heads() : group.conditions.candidates, set);
    for (int rank = 0; rank < low_rank_.ranks_size(); ++rank) {
      const double as_threshold = static_cast<double>(low_rank_.ranks(rank));
      std::vector<double> rises;
      for (const size_t at : sets) {
        const std::optional<double> rise = Rise(group, group.conditions.At(static_cast<size_t>(rank), at));
        if (rise.has_value()) {
          rises.push_back(*rise);
        }
      }
      Value value;
      if (rises.empty()) {
        value.because = group.conditions.sets.empty() ? "the set of heads is empty"
                        : sets.empty()                ? "no other head is left to draw from"
                                                      : "a perplexity is not finite";
      } else {
        value.value = std::accumulate(rises.begin(), rises.end(), 0.0) / static_cast<double>(rises.size());
      }
      if (!rises.empty() && !control.empty()) {
        value.low = *std::min_element(rises.begin(), rises.end());
        value.high = *std::max_element(rises.begin(), rises.end());
      }
      const int64_t n =
          control.empty() && !rises.empty() ? group.prompts : static_cast<int64_t>(rises.size());
      AddStatistic(group, "low_rank_perplexity_rise", value, n, set, as_threshold);
      AddAccuracyDrop(group, static_cast<size_t>(rank), sets, set);
    }
  }

  // Accuracy of the model as it is less that of the edited one; of a control its draws' mean.
  void AddAccuracyDrop(const LowRankGroup& group, size_t rank, const std::vector<size_t>& sets,
                       const std::string& set) {
    if (!group.answers.has_value()) {
      return;
    }
    const OutcomeLevel all = LevelsOf(group.answers->samples()).front();
    std::vector<double> drops;
    for (const size_t at : sets) {
      drops.push_back(AccuracyOf(*group.answers, 0, all) -
                      AccuracyOf(*group.answers, group.conditions.At(rank, at), all));
    }
    Value value;
    if (drops.empty()) {
      value.because =
          group.conditions.sets.empty() ? "the set of heads is empty" : "no other head is left to draw from";
    } else {
      value.value = std::accumulate(drops.begin(), drops.end(), 0.0) / static_cast<double>(drops.size());
    }
    const bool named = set == "named";
    if (!named && !drops.empty()) {
      value.low = *std::min_element(drops.begin(), drops.end());
      value.high = *std::max_element(drops.begin(), drops.end());
    }
    AddStatistic(group, "low_rank_accuracy_drop", value,
                 static_cast<int64_t>(named ? all.samples.size() : drops.size()), set,
                 static_cast<double>(low_rank_.ranks(static_cast<int>(rank))));
  }

  static std::optional<double> Rise(const LowRankGroup& group, size_t measured) {
    const std::optional<double> baseline = group.Perplexity(0), edited = group.Perplexity(measured);
    return baseline.has_value() && edited.has_value() ? std::optional<double>(*edited / *baseline - 1)
                                                      : std::nullopt;
  }

  // A control whose key projection is a named head's too: editing keys edits both.
  void AddSharedGroups(const LowRankGroup& group, const std::string& control) {
    const std::vector<size_t> draws = SetsOf(group, control);
    if (draws.empty() || !Edits(low_rank_.matrices(), v1::Matrix::KEY)) {
      return;
    }
    const v1::ModelConfig& config = group.model->config;
    std::set<std::pair<int64_t, int64_t>> keys;
    for (const NamedHead& head : group.conditions.sets.front().heads) {
      keys.insert({head.layer, KvHeadOf(config, head.head)});
    }
    std::map<std::pair<int64_t, int64_t>, int64_t> drawn;
    for (const size_t draw : draws) {
      for (const NamedHead& head : group.conditions.sets[draw].heads) {
        if (keys.count({head.layer, KvHeadOf(config, head.head)}) > 0) {
          ++drawn[{head.layer, head.head}];
        }
      }
    }
    for (const auto& [head, times] : drawn) {
      AddStatistic(group, absl::StrCat("low_rank_shares_key.L", head.first, "H", head.second),
                   {static_cast<double>(times)}, static_cast<int64_t>(draws.size()), control);
    }
  }

  void AddStatistic(const LowRankGroup& group, const std::string& name, const Value& value, int64_t n,
                    std::optional<std::string> set = std::nullopt,
                    std::optional<double> threshold = std::nullopt) {
    statistics_.Text(group.label).Text(group.dtype).Text(numerics_class_).Text(name);
    statistics_.Text(std::nullopt).Text(std::move(set)).Real(threshold).Integer(group.seed);
    statistics_.Real(value.value).Real(value.low).Real(value.high).Real(std::nullopt).Integer(n);
    statistics_.Text(value.value.has_value() ? std::nullopt : std::optional<std::string>(value.because));
  }

  const v1::LowRank& low_rank_;
  const std::string numerics_class_;
  std::optional<int64_t> context_length_;
  TableBuilder conditions_, outcomes_, statistics_;
};

}  // namespace

absl::StatusOr<Results> LowRankExperiment::Reduce(const v1::ExperimentSpec& spec, const Context& context,
                                                  StageReadings& readings) const {
  ROPELAB_ASSIGN_OR_RETURN(const std::vector<LowRankGroup> groups, ReadLosses(spec, context, readings));
  Writer writer(spec.low_rank(), context.numerics_class);
  for (const LowRankGroup& group : groups) {
    writer.Add(group);
  }
  Results results;
  results.tables = writer.Finish();
  return results;
}

}  // namespace ropelab::experiments
