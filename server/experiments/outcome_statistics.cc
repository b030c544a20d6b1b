#include "server/experiments/outcome_statistics.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/experiments/low_rank_edit.h"
#include "server/experiments/outcome_controls.h"
#include "server/statistics/quantiles.h"
#include "server/statistics/spread.h"

namespace ropelab::experiments {
namespace {

// Of the specificity ratio: the paper's cut below which an effect is called specific, and its mirror.
constexpr double kSpecific = 0.33, kGeneral = 0.67;

std::string HeadName(const NamedHead& head) {
  return absl::StrCat("L", head.layer, "H", head.head);
}

}  // namespace

OutcomeStatistics::Lines OutcomeStatistics::LinesOf(const Place& place, const std::string& name) {
  Lines lines;
  const std::vector<OutcomeCondition>& list = place.group.conditions.list;
  for (size_t i = 1; i < list.size(); ++i) {
    if (list[i].name == name && list[i].point == place.point) {
      lines.push_back(&list[i]);
    }
  }
  return lines;
}

const OutcomeCondition* OutcomeStatistics::LineOf(const Place& place, const std::string& name) {
  const Lines lines = LinesOf(place, name);
  return lines.empty() ? nullptr : lines.front();
}

void OutcomeStatistics::Add(const OutcomeGroup& group, OutcomePairs& pairs) {
  const std::vector<OutcomeLevel> levels = LevelsOf(group.answers.samples());
  const int64_t lengths = std::count_if(levels.begin(), levels.end(), [](const OutcomeLevel& level) {
    return !level.whole() && !level.depth.has_value();
  });
  for (const OutcomePoint& point : group.conditions.points) {
    for (const OutcomeLevel& level : levels) {
      if (level.whole() || (lengths > 1 && !level.depth.has_value())) {
        AddPlace({group, pairs, point, level});
      }
    }
  }
  const int64_t kept = static_cast<int64_t>(group.answers.samples().size());
  const auto put = [&](const std::string& name, int64_t value, int64_t n) {
    PutRow(group, std::nullopt, group.seed, {.name = name, .value = static_cast<double>(value), .n = n});
  };
  put("needles_kept", kept, kept + group.dropped);
  put("needles_dropped", group.dropped, kept + group.dropped);
  put("heads", static_cast<int64_t>(group.conditions.heads.size()),
      group.model->config.layers() * group.model->config.query_heads());
  put("control_candidates", group.conditions.candidates,
      group.model->config.layers() * group.model->config.query_heads());
  if (group.choice.has_value()) {
    put("corpus_documents_read", group.choice->read, group.in_corpus);
    put("corpus_skipped", group.choice->skipped, group.choice->read);
  }
}

void OutcomeStatistics::AddPlace(const Place& place) {
  const OutcomeCondition* main = LineOf(place, fields_.knockout() ? "knockout" : "lowest_frequency");
  if (main != nullptr) {
    AddEffects(place, *main);
  }
  for (const v1::ControlHeads& control : fields_.controls) {
    AddDraws(place, ControlName(control) + "_control");
    // The bare name is the layer-matched control's where there is one.
    const bool other = fields_.controls.size() > 1 && control.has_random();
    if (main != nullptr) {
      AddGap(place, *main, ControlName(control), other ? ".random" : "");
    }
  }
  if (fields_.Has(v1::PatchCondition::RANDOM_DIMS)) {
    AddDraws(place, "random_dims");
  }
  if (place.level.whole() && fields_.perplexity != nullptr && main != nullptr) {
    AddSpecificity(place, *main);
  }
  if (place.level.whole()) {
    AddEditedKeys(place);
  }
  const bool at_ceiling = place.pairs.AtCeiling(place.point, place.level);
  Put(place, {.name = "at_ceiling",
              .value = at_ceiling ? 1.0 : 0.0,
              .n = static_cast<int64_t>(place.level.samples.size()),
              .because = at_ceiling ? "at ceiling: uninformative" : ""});
}

void OutcomeStatistics::AddEffects(const Place& place, const OutcomeCondition& main) {
  const OutcomeCondition* highest = LineOf(place, "highest_frequency");
  const OutcomeCondition& against = highest != nullptr ? *highest : Baseline(place);
  const PairedComparison effect = place.pairs.Of(main, against, place.level);
  Put(place,
      {.name = "mcnemar_p", .value = effect.p, .p = effect.p, .n = effect.only_first + effect.only_second});
  if (highest != nullptr) {
    Put(place, {.name = "frequency_effect",
                .value = effect.difference,
                .low = effect.low,
                .high = effect.high,
                .p = effect.p,
                .n = effect.samples,
                .over_seeds = true});
  }
  const PairedComparison drop = place.pairs.Of(Baseline(place), main, place.level);
  Put(place, {.name = "accuracy_drop",
              .value = drop.difference,
              .low = drop.low,
              .high = drop.high,
              .p = drop.p,
              .n = drop.samples,
              .over_seeds = true});
  const Lines random = LinesOf(place, "random_dims");
  if (random.empty()) {
    return;
  }
  std::vector<double> differences;
  double p = 0;
  for (const OutcomeCondition* draw : random) {
    const PairedComparison found = place.pairs.Of(main, *draw, place.level);
    differences.push_back(found.difference);
    p = std::max(p, found.p);
  }
  Put(place, {.name = "lowest_against_random",
              .value = statistics::Median(differences),
              .low = *std::min_element(differences.begin(), differences.end()),
              .high = *std::max_element(differences.begin(), differences.end()),
              .p = p,
              .n = static_cast<int64_t>(differences.size()),
              .over_seeds = true});
}

void OutcomeStatistics::AddGap(const Place& place, const OutcomeCondition& main, const std::string& control,
                               const std::string& suffix) {
  std::vector<double> gaps;
  double p = 0;
  for (const OutcomeCondition* draw : LinesOf(place, control + "_control")) {
    const PairedComparison found = place.pairs.Of(*draw, main, place.level);
    gaps.push_back(found.difference);
    p = std::max(p, found.p);
  }
  Figure figure = {.name = "head_specificity_gap" + suffix, .over_seeds = true};
  figure.n = static_cast<int64_t>(gaps.size());
  if (gaps.empty()) {
    figure.because = "no other head is left to draw from";
  } else {
    figure.value = statistics::Median(gaps);
    figure.low = *std::min_element(gaps.begin(), gaps.end());
    figure.high = *std::max_element(gaps.begin(), gaps.end());
    figure.p = p;
  }
  Put(place, std::move(figure));
}

void OutcomeStatistics::AddDraws(const Place& place, const std::string& name) {
  const Lines draws = LinesOf(place, name);
  std::vector<double> accuracies;
  for (const OutcomeCondition* draw : draws) {
    accuracies.push_back(AccuracyOf(place.group.answers, draw->measured, place.level));
  }
  Figure figure = {.name = absl::StrCat("accuracy_over_draws.", name), .over_seeds = true};
  figure.n = static_cast<int64_t>(accuracies.size());
  if (accuracies.empty()) {
    figure.because = "no other head is left to draw from";
  } else {
    figure.value = statistics::Median(accuracies);
    figure.low = *std::min_element(accuracies.begin(), accuracies.end());
    figure.high = *std::max_element(accuracies.begin(), accuracies.end());
  }
  Put(place, std::move(figure));
  if (!draws.empty() && !draws.front()->control.empty() && place.level.whole()) {
    AddWorstDraw(place, draws, draws.front()->control);
    AddSharedGroups(place, draws, draws.front()->control);
  }
}

void OutcomeStatistics::AddWorstDraw(const Place& place, const Lines& draws, const std::string& control) {
  const auto accuracy = [&](const OutcomeCondition* draw) {
    return AccuracyOf(place.group.answers, draw->measured, place.level);
  };
  const OutcomeCondition* worst = *std::min_element(
      draws.begin(), draws.end(), [&](const auto* a, const auto* b) { return accuracy(a) < accuracy(b); });
  Put(place, {.name = absl::StrCat("worst_draw.", control),
              .value = static_cast<double>(*worst->draw),
              .n = static_cast<int64_t>(draws.size())});
  // Who is responsible shows in the draws that hold the same head.
  for (const NamedHead& head : worst->heads) {
    std::vector<double> with_it;
    for (const OutcomeCondition* draw : draws) {
      if (std::find(draw->heads.begin(), draw->heads.end(), head) != draw->heads.end()) {
        with_it.push_back(accuracy(draw));
      }
    }
    Put(place, {.name = absl::StrCat("worst_draw.", control, ".", HeadName(head)),
                .value = statistics::Median(with_it),
                .low = *std::min_element(with_it.begin(), with_it.end()),
                .high = *std::max_element(with_it.begin(), with_it.end()),
                .n = static_cast<int64_t>(with_it.size())});
  }
}

// The heads that a point edits, whatever its conditions are.
std::vector<NamedHead> OutcomeStatistics::HeadsOf(const Place& place) {
  if (place.point.layer.has_value()) {
    return {{*place.point.layer, *place.point.head, std::nullopt}};
  }
  for (const OutcomeCondition& line : place.group.conditions.list) {
    if (line.point == place.point && line.control.empty() && !line.heads.empty()) {
      return line.heads;
    }
  }
  return place.group.conditions.heads;
}

// Their keys, as layer and KV head.
std::set<std::pair<int64_t, int64_t>> OutcomeStatistics::KeysOf(const Place& place) {
  std::set<std::pair<int64_t, int64_t>> keys;
  for (const NamedHead& head : HeadsOf(place)) {
    keys.insert({head.layer, KvHeadOf(place.group.model->config, head.head)});
  }
  return keys;
}

// An edit of keys touches every query head that shares them, named or not.
void OutcomeStatistics::AddEditedKeys(const Place& place) {
  const v1::ModelConfig& config = place.group.model->config;
  if (fields_.knockout() || *fields_.target == v1::Target::QUERY ||
      config.kv_heads() >= config.query_heads()) {
    return;
  }
  const int64_t group = config.query_heads() / config.kv_heads();
  Put(place, {.name = "key_edit_heads",
              .value = static_cast<double>(static_cast<int64_t>(KeysOf(place).size()) * group),
              .n = static_cast<int64_t>(HeadsOf(place).size())});
}

// A control whose key is a patched head's too: an edit of keys touches both.
void OutcomeStatistics::AddSharedGroups(const Place& place, const Lines& draws, const std::string& control) {
  const v1::ModelConfig& config = place.group.model->config;
  if (config.kv_heads() >= config.query_heads()) {
    return;
  }
  const std::set<std::pair<int64_t, int64_t>> keys = KeysOf(place);
  std::map<std::pair<int64_t, int64_t>, int64_t> drawn;
  for (const OutcomeCondition* draw : draws) {
    for (const NamedHead& head : draw->heads) {
      if (keys.count({head.layer, KvHeadOf(config, head.head)}) > 0) {
        ++drawn[{head.layer, head.head}];
      }
    }
  }
  for (const auto& [head, times] : drawn) {
    Put(place, {.name = absl::StrCat("shares_kv_group.", control, ".L", head.first, "H", head.second),
                .value = static_cast<double>(times),
                .n = static_cast<int64_t>(draws.size())});
  }
}

void OutcomeStatistics::AddSpecificity(const Place& place, const OutcomeCondition& main) {
  const OutcomeGroup& group = place.group;
  const double before = AccuracyOf(group.answers, 0, place.level);
  const double after = AccuracyOf(group.answers, main.measured, place.level);
  const std::optional<double> plain = group.losses.Perplexity(0);
  const std::optional<double> edited = group.losses.Perplexity(main.measured);
  const int64_t samples = static_cast<int64_t>(place.level.samples.size());
  Figure rise = {.name = "perplexity_rise", .n = group.losses.prompts(), .over_seeds = true};
  Figure drop = {.name = "recall_drop", .n = samples, .over_seeds = true};
  Figure ratio = {.name = "specificity_ratio", .n = samples, .over_seeds = true};
  if (plain.has_value() && edited.has_value()) {
    rise.value = *edited / *plain - 1;
  } else {
    rise.because = ratio.because = "a perplexity is not finite";
  }
  if (before > 0) {
    drop.value = (before - after) / before;
  } else {
    drop.because = ratio.because = "nothing is recalled without an edit";
  }
  if (drop.value.has_value() && !(*drop.value > 0)) {
    ratio.because = "recall does not drop";
  } else if (drop.value.has_value() && rise.value.has_value()) {
    ratio.value = *rise.value / *drop.value;
    const char* verdict = *ratio.value < kSpecific  ? "specific"
                          : *ratio.value > kGeneral ? "general"
                                                    : "ambiguous";
    Put(place, {.name = absl::StrCat("specificity_verdict.", verdict), .value = ratio.value, .n = samples});
  }
  Put(place, std::move(rise));
  Put(place, std::move(drop));
  Put(place, std::move(ratio));
}

void OutcomeStatistics::Put(const Place& place, Figure figure) {
  if (place.level.context_length.has_value()) {
    absl::StrAppend(&figure.name, ".context_", *place.level.context_length);
  }
  if (place.point.layer.has_value()) {
    absl::StrAppend(&figure.name, ".", HeadName({*place.point.layer, *place.point.head, std::nullopt}));
  }
  std::optional<double> threshold = place.point.coverage;
  if (fields_.kind == "dose_sweep") {
    threshold = place.point.dose;
  }
  if (figure.over_seeds && figure.value.has_value()) {
    over_seeds_[{place.group.label, place.group.dtype, figure.name, place.group.conditions.detector,
                 threshold}]
        .push_back(*figure.value);
  }
  PutRow(place.group, threshold, place.group.seed, figure);
}

void OutcomeStatistics::PutRow(const OutcomeGroup& group, const std::optional<double>& threshold,
                               std::optional<int64_t> seed, const Figure& figure) {
  table_.Text(group.label).Text(group.dtype).Text(numerics_class_).Text(figure.name);
  table_.Text(std::nullopt).Text(group.conditions.detector).Real(threshold).Integer(seed);
  table_.Real(figure.value).Real(figure.low).Real(figure.high).Real(figure.p).Integer(figure.n);
  table_.Text(figure.because.empty() ? std::nullopt : std::optional<std::string>(figure.because));
}

Table OutcomeStatistics::Finish() {
  for (const auto& [key, values] : over_seeds_) {
    const auto& [label, dtype, name, detector, threshold] = key;
    const auto [mean, sd] = statistics::SpreadOf(values);
    std::optional<double> low, high;
    if (sd.has_value()) {
      low = mean - *sd;
      high = mean + *sd;
    }
    table_.Text(label).Text(dtype).Text(numerics_class_).Text(name + ".over_seeds");
    table_.Text(std::nullopt).Text(detector).Real(threshold).Integer(std::nullopt);
    table_.Real(mean).Real(low).Real(high).Real(std::nullopt);
    table_.Integer(static_cast<int64_t>(values.size())).Text(std::nullopt);
  }
  return table_.Finish(/*whole_in_sql=*/true);
}

}  // namespace ropelab::experiments
