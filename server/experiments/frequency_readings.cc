#include "server/experiments/frequency_readings.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/experiments/prompts.h"

namespace ropelab::experiments {
namespace {

using Numbers = google::protobuf::RepeatedField<double>;

std::string NameOf(const FrequencyGroup& group, int64_t layer, int64_t head) {
  return absl::StrCat("L", layer, "H", head, " of model ", group.label, ", seed ", group.seed);
}

absl::StatusOr<size_t> PlaceOf(const FrequencyGroup& group, int64_t layer, int64_t head) {
  for (size_t place = 0; place < group.heads.size(); ++place) {
    if (group.heads[place].layer == layer && group.heads[place].head == head) {
      return place;
    }
  }
  return absl::InternalError(absl::StrCat(NameOf(group, layer, head), " was measured, and nobody asked"));
}

bool AllFinite(const Numbers& numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](double value) { return std::isfinite(value); });
}

void AddTo(const Numbers& numbers, std::vector<double>& sums) {
  sums.resize(std::max(sums.size(), static_cast<size_t>(numbers.size())));
  for (int i = 0; i < numbers.size(); ++i) {
    sums[static_cast<size_t>(i)] += numbers[i];
  }
}

absl::Status NotFinite(const FrequencyGroup& group, const char* what, int64_t layer, int64_t head) {
  return absl::DataLossError(absl::StrCat(what, " of ", NameOf(group, layer, head),
                                          " holds a number that is not finite; the checkpoint's weights may "
                                          "hold NaN"));
}

absl::Status AddFrequencies(const v1::HeadFrequencies& said, const FrequencyGroup& group,
                            FrequencyMeasures& measures) {
  ROPELAB_ASSIGN_OR_RETURN(const size_t place, PlaceOf(group, said.layer(), said.head()));
  const std::string name = NameOf(group, said.layer(), said.head());
  const int pairs = static_cast<int>(group.pairs());
  const int at_lag = group.heads[place].offset.has_value() ? pairs : 0;
  if (said.prompts() < 1 || said.theta_size() != pairs || said.means().query_size() != 2 * pairs ||
      said.means().key_size() != 2 * pairs || said.mean_inp_size() != pairs ||
      said.mean_abs_inp_size() != pairs || said.inp_at_lag_size() != at_lag) {
    return absl::InternalError(absl::StrCat("the frequencies of ", name, " do not hold ", pairs,
                                            " pairs in every figure that was asked for"));
  }
  for (const Numbers* numbers : {&said.theta(), &said.means().query(), &said.means().key(), &said.mean_inp(),
                                 &said.mean_abs_inp(), &said.inp_at_lag()}) {
    if (!AllFinite(*numbers)) {
      return NotFinite(group, "a mean", said.layer(), said.head());
    }
  }
  HeadMeasures& head = measures.heads[place];
  const std::vector<double> theta(said.theta().begin(), said.theta().end());
  if (head.prompts > 0 && (head.theta != theta || head.attention_factor != said.attention_factor())) {
    return absl::FailedPreconditionError(
        absl::StrCat("the pairs of ", name,
                     " turn by other frequencies in some prompts than in others, because this model's RoPE "
                     "depends on the prompt's length: give prompts of one length"));
  }
  head.theta = theta;
  head.attention_factor = said.attention_factor();
  head.prompts += said.prompts();
  AddTo(said.means().query(), head.query);
  AddTo(said.means().key(), head.key);
  AddTo(said.mean_inp(), head.mean_inp);
  AddTo(said.mean_abs_inp(), head.mean_abs_inp);
  AddTo(said.inp_at_lag(), head.inp_at_lag);
  return absl::OkStatus();
}

absl::Status AddHeat(const v1::HeatMapPiece& piece, const FrequencyGroup& group,
                     FrequencyMeasures& measures) {
  ROPELAB_ASSIGN_OR_RETURN(const size_t place, PlaceOf(group, piece.layer(), piece.head()));
  const int64_t row = piece.row() + 1, pairs = piece.pairs();
  const auto found = measures.heads[place].heat.find(row);
  if (found == measures.heads[place].heat.end() || piece.prompts() < 1 || pairs < 1 ||
      piece.first_pair() < 1 || piece.first_pair() - 1 + pairs > group.pairs() ||
      piece.inp_size() != pairs * row || piece.std_size() != pairs) {
    return absl::InternalError(absl::StrCat("row ", row, " of the heat map of ",
                                            NameOf(group, piece.layer(), piece.head()),
                                            " has a piece that does not fit"));
  }
  if (!AllFinite(piece.inp()) || !AllFinite(piece.std())) {
    return NotFinite(group, "the heat map", piece.layer(), piece.head());
  }
  HeatMap& map = found->second;
  const size_t first = static_cast<size_t>(piece.first_pair() - 1);
  for (int i = 0; i < piece.inp_size(); ++i) {
    map.inp[first * static_cast<size_t>(row) + static_cast<size_t>(i)] += piece.inp(i);
  }
  for (int i = 0; i < piece.std_size(); ++i) {
    map.std[first + static_cast<size_t>(i)] += piece.std(i);
    map.prompts[first + static_cast<size_t>(i)] += piece.prompts();
  }
  return absl::OkStatus();
}

// Blocks without a removal are the scores of the profile's own range, which nobody reads.
absl::Status AddScore(const v1::SlashBlock& block, const FrequencyGroup& group, FrequencyMeasures& measures) {
  if (block.removal() == 0) {
    return absl::OkStatus();
  }
  ROPELAB_ASSIGN_OR_RETURN(const size_t place, PlaceOf(group, block.layer(), block.first_head()));
  std::vector<statistics::Moments>& scores = measures.heads[place].scores;
  if (block.removal() < 0 || static_cast<size_t>(block.removal()) > scores.size() || block.heads() != 1 ||
      block.offsets() != 1 || block.first_offset() != group.heads[place].offset || block.mean_size() != 1 ||
      block.m2_size() != 1) {
    return absl::InternalError(absl::StrCat("removal ", block.removal(), " of ",
                                            NameOf(group, block.layer(), block.first_head()),
                                            " is no score at its own offset that was asked for"));
  }
  if (!std::isfinite(block.mean(0)) || !std::isfinite(block.m2(0))) {
    return NotFinite(group, "the score under a removal", block.layer(), block.first_head());
  }
  statistics::Merge({block.prompts(), block.mean(0), block.m2(0)},
                    scores[static_cast<size_t>(block.removal() - 1)]);
  return absl::OkStatus();
}

// Every figure of a head is of exactly `prompts` prompts.
absl::Status CheckComplete(const FrequencyGroup& group, const FrequencyMeasures& measures, int64_t prompts,
                           FrequencyReading what) {
  for (size_t place = 0; place < group.heads.size(); ++place) {
    const HeadMeasures& head = measures.heads[place];
    const std::string name = NameOf(group, group.heads[place].layer, group.heads[place].head);
    if (head.prompts != prompts) {
      return absl::InternalError(
          absl::StrCat(name, " was profiled on ", head.prompts, " prompts, not ", prompts));
    }
    for (const auto& [row, map] : head.heat) {
      for (size_t pair = 0; what == FrequencyReading::kAll && pair < map.prompts.size(); ++pair) {
        if (map.prompts[pair] != prompts) {
          return absl::InternalError(absl::StrCat("row ", row, " of the heat map of ", name, " has pair ",
                                                  pair + 1, " of ", map.prompts[pair], " prompts, not ",
                                                  prompts));
        }
      }
    }
    for (size_t list = 0; what == FrequencyReading::kAll && list < head.scores.size(); ++list) {
      if (head.scores[list].n != prompts) {
        return absl::InternalError(absl::StrCat("removal ", list + 1, " of ", name, " was scored on ",
                                                head.scores[list].n, " prompts, not ", prompts));
      }
    }
  }
  return absl::OkStatus();
}

// From sums to means.
void Divide(HeadMeasures& head) {
  const double n = static_cast<double>(head.prompts);
  std::vector<std::vector<double>*> all = {&head.query, &head.key, &head.mean_inp, &head.mean_abs_inp,
                                           &head.inp_at_lag};
  for (auto& [row, map] : head.heat) {
    all.push_back(&map.inp);
    all.push_back(&map.std);
  }
  for (std::vector<double>* sums : all) {
    for (double& sum : *sums) {
      sum /= n;
    }
  }
}

std::vector<FrequencyMeasures> EmptyMeasures(const std::vector<FrequencyGroup>& groups,
                                             const std::vector<int64_t>& rows, FrequencyReading what) {
  std::vector<FrequencyMeasures> measures(groups.size());
  for (size_t g = 0; g < groups.size(); ++g) {
    measures[g].heads.resize(groups[g].heads.size());
    const size_t pairs = static_cast<size_t>(groups[g].pairs());
    for (HeadMeasures& head : measures[g].heads) {
      head.scores.resize(groups[g].removals.lists.size());
      for (const int64_t row : what == FrequencyReading::kAll ? rows : std::vector<int64_t>()) {
        head.heat[row] = {std::vector<double>(pairs * static_cast<size_t>(row)), std::vector<double>(pairs),
                          std::vector<int64_t>(pairs)};
      }
    }
  }
  return measures;
}

absl::Status NotOfThePlan(int64_t task_index) {
  return absl::InternalError(
      absl::StrCat("task ", task_index, " gave a reading that is no part of its measurement"));
}

int64_t PromptsOf(const v1::ExperimentSpec& spec) {
  return ShapeOf(spec.frequency_analysis().prompts()).value_or(PromptShape()).count;
}

}  // namespace

absl::StatusOr<std::vector<FrequencyMeasures>> ReadProfiles(const v1::ExperimentSpec& spec,
                                                            const std::vector<FrequencyGroup>& groups,
                                                            const FoundPrompts& found,
                                                            StageReadings& readings, FrequencyReading what) {
  const v1::FrequencyAnalysis& analysis = spec.frequency_analysis();
  const PromptShape shape = ShapeOf(analysis.prompts()).value_or(PromptShape());
  std::vector<FrequencyMeasures> measures =
      EmptyMeasures(groups, HeatRowsOf(analysis, shape, AllHeadsOf(groups)), what);
  const std::vector<FrequencyTask> tasks = ProfileTasks(groups, found.blocks);
  ROPELAB_RETURN_IF_ERROR(readings.ForEach(
      found.stages + 1,
      [&](int64_t task_index, const v1::Measurement&, const v1::Reading& reading) -> absl::Status {
        if (static_cast<size_t>(task_index) >= tasks.size()) {
          return absl::InternalError(absl::StrCat("task ", task_index, " is not of this plan"));
        }
        const FrequencyTask& at = tasks[static_cast<size_t>(task_index)];
        const bool all = what == FrequencyReading::kAll;
        if (at.part == FrequencyPart::kProfile && reading.has_head_frequencies()) {
          return AddFrequencies(reading.head_frequencies(), groups[at.group], measures[at.group]);
        }
        if (at.part == FrequencyPart::kProfile && reading.has_heat_map_piece()) {
          return all ? AddHeat(reading.heat_map_piece(), groups[at.group], measures[at.group])
                     : absl::OkStatus();
        }
        if (at.part == FrequencyPart::kRemovals && reading.has_slash_block()) {
          return all ? AddScore(reading.slash_block(), groups[at.group], measures[at.group])
                     : absl::OkStatus();
        }
        return NotOfThePlan(task_index);
      }));
  for (size_t g = 0; g < groups.size(); ++g) {
    ROPELAB_RETURN_IF_ERROR(CheckComplete(groups[g], measures[g], PromptsOf(spec), what));
    for (HeadMeasures& head : measures[g].heads) {
      Divide(head);
    }
  }
  return measures;
}

absl::Status ReadFits(const v1::ExperimentSpec& spec, const std::vector<FrequencyGroup>& groups,
                      const FoundPrompts& found, StageReadings& readings,
                      std::vector<FrequencyMeasures>& measures) {
  const std::vector<FrequencyTask> tasks = FitTasks(groups, found.blocks);
  ROPELAB_RETURN_IF_ERROR(readings.ForEach(
      found.stages + 2,
      [&](int64_t task_index, const v1::Measurement&, const v1::Reading& reading) -> absl::Status {
        if (static_cast<size_t>(task_index) >= tasks.size() || !reading.has_head_fit()) {
          return NotOfThePlan(task_index);
        }
        const size_t g = tasks[static_cast<size_t>(task_index)].group;
        const v1::HeadFit& fit = reading.head_fit();
        ROPELAB_ASSIGN_OR_RETURN(const size_t place, PlaceOf(groups[g], fit.layer(), fit.head()));
        HeadMeasures& head = measures[g].heads[place];
        if (fit.sample() != head.fits) {
          return absl::InternalError(absl::StrCat(NameOf(groups[g], fit.layer(), fit.head()),
                                                  ": the fit of sample ", fit.sample(),
                                                  " was given where sample ", head.fits, " is due"));
        }
        ++head.fits;
        head.r2 += fit.r2();
        head.r2_centred += fit.r2_centred();
        head.eta2 += fit.eta2();
        return absl::OkStatus();
      }));
  for (size_t g = 0; g < groups.size(); ++g) {
    for (size_t place = 0; place < groups[g].heads.size(); ++place) {
      HeadMeasures& head = measures[g].heads[place];
      if (head.fits != PromptsOf(spec)) {
        return absl::InternalError(
            absl::StrCat(NameOf(groups[g], groups[g].heads[place].layer, groups[g].heads[place].head),
                         " was fitted on ", head.fits, " prompts, not ", PromptsOf(spec)));
      }
      for (double* sum : {&head.r2, &head.r2_centred, &head.eta2}) {
        *sum /= static_cast<double>(head.fits);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace ropelab::experiments
