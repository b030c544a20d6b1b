#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/experiments/shallow_training.h"
#include "server/experiments/shallow_training_theory.h"
#include "server/experiments/table_builder.h"

namespace ropelab::experiments {
namespace {

using Trajectory = v1::ShallowTrajectory;

// Steps of the two stages after the start, each counted from 1.
struct Steps {
  int first = 0, second = 0;
};

absl::StatusOr<Steps> StepsOf(const Trajectory& trajectory, const ShallowVariant& variant) {
  const int rows = trajectory.stage_size();
  const bool even = trajectory.step_size() == rows && trajectory.min_slash_size() == rows &&
                    trajectory.mean_slash_size() == rows && trajectory.feature_share_size() == rows &&
                    trajectory.loss_size() == rows;
  if (!even || rows != 1 + variant.first_steps + variant.second_steps) {
    return absl::InternalError(absl::StrCat("the trajectory of ", variant.name, " holds ", rows,
                                            " steps and the start; planned were ",
                                            variant.first_steps + variant.second_steps));
  }
  return Steps{static_cast<int>(variant.first_steps), static_cast<int>(variant.second_steps)};
}

// The trajectories of all tasks: by place in the plan.
absl::StatusOr<std::map<int64_t, Trajectory>> ReadTrajectories(StageReadings& readings) {
  std::map<int64_t, Trajectory> trajectories;
  ROPELAB_RETURN_IF_ERROR(readings.ForEach(
      1, [&](int64_t task, const v1::Measurement&, const v1::Reading& reading) -> absl::Status {
        if (!reading.has_shallow_trajectory() ||
            !trajectories.emplace(task, reading.shallow_trajectory()).second) {
          return absl::InternalError("a shallow_training task gives exactly one reading, its trajectory");
        }
        return absl::OkStatus();
      }));
  return trajectories;
}

class Tables {
 public:
  Tables(const v1::ShallowTraining& training, const Context& context)
      : training_(training),
        context_(context),
        positions_(PositionsOf(training)),
        variants_(VariantsOf(training)),
        condition_(ConditionOf(ThetaOf(training), positions_)) {}

  absl::Status AddSeed(int64_t seed, int64_t& task, const std::map<int64_t, Trajectory>& trajectories) {
    seed_ = seed;
    AddTheory();
    std::optional<double> full_steps;
    for (const ShallowVariant& variant : variants_) {
      if (variant.theta.empty()) {
        AddEmptyBand(variant);
        continue;
      }
      const auto found = trajectories.find(task++);
      if (found == trajectories.end()) {
        return absl::InternalError(
            absl::StrCat("the run ", variant.name, " of seed ", seed, " gave no reading"));
      }
      ROPELAB_ASSIGN_OR_RETURN(const Steps steps, StepsOf(found->second, variant));
      AddSeries(variant.name, found->second);
      switch (variant.role) {
        case ShallowVariant::Role::kFull:
          full_steps = AddStepsToSlash(variant.name, found->second, steps);
          AddFull(found->second, steps);
          break;
        case ShallowVariant::Role::kMustFail:
          AddMustFail(variant, found->second);
          break;
        case ShallowVariant::Role::kBand:
          AddBand(variant, found->second, steps, full_steps);
          break;
      }
    }
    return absl::OkStatus();
  }

  Results Finish() {
    Results results;
    results.tables.push_back(series_.Finish(true));
    results.tables.push_back(statistics_.Finish(true));
    return results;
  }

 private:
  // model and dtype are empty text: there is no model.
  TableBuilder& Lead(TableBuilder& table) { return table.Text("").Text("").Text(context_.numerics_class); }

  // `because` is read where `value` is not a number.
  void Add(const std::string& name, double value, const std::string& because = "",
           std::optional<double> threshold = std::nullopt, std::optional<int64_t> prompts = std::nullopt) {
    const bool defined = std::isfinite(value);
    Lead(statistics_).Text(name).Text(std::nullopt).Text(std::nullopt).Real(threshold).Integer(seed_);
    statistics_.Real(defined ? std::optional<double>(value) : std::nullopt);
    statistics_.Real(std::nullopt).Real(std::nullopt).Real(std::nullopt).Integer(prompts);
    statistics_.Text(defined ? std::nullopt : std::optional<std::string>(because));
  }

  void AddTheory() {
    const std::string no_pulse = "the frequencies' cosines make no pulse: C1 is not positive";
    const v1::TrainingStage &first = training_.stage1(), &second = training_.stage2();
    Add("assumption.c1", condition_.c1);
    Add("assumption.c2", condition_.c2);
    Add("assumption.epsilon", condition_.epsilon);
    Add("assumption.epsilon_over_c1", condition_.c1 > 0 ? condition_.epsilon / condition_.c1 : std::nan(""),
        no_pulse);
    Add("assumption.least_l", condition_.least_l, no_pulse);
    Add("bound.stage1_steps",
        FirstBound(training_.features(), positions_, first.learning_rate(), condition_.c1), no_pulse);
    Add("bound.stage2_steps", SecondBound(training_.features(), positions_, second.learning_rate()));
  }

  void AddSeries(const std::string& run, const Trajectory& trajectory) {
    const std::pair<const char*, const google::protobuf::RepeatedField<double>*> figures[] = {
        {"min_slash", &trajectory.min_slash()},
        {"mean_slash", &trajectory.mean_slash()},
        {"feature_share", &trajectory.feature_share()},
        {"loss", &trajectory.loss()}};
    for (const auto& [figure, values] : figures) {
      const std::string name = absl::StrCat("seed_", seed_, ".", run, ".", figure);
      for (int i = 0; i < values->size(); ++i) {
        Lead(series_).Text(name).Real(i).Real(values->Get(i));
      }
    }
  }

  // Steps after row `from` to the first row, `from` itself included, at which `reached` holds.
  double AddLevel(const std::string& name, int from, int steps, double threshold, double nearest,
                  absl::FunctionRef<bool(int)> reached) {
    for (int i = 0; i <= steps; ++i) {
      if (reached(from + i)) {
        Add(name, i, "", threshold);
        return i;
      }
    }
    Add(name, std::nan(""), absl::StrCat("not reached within ", steps, " steps; the nearest was ", nearest),
        threshold);
    return std::nan("");
  }

  std::optional<double> AddStepsToSlash(const std::string& run, const Trajectory& trajectory, Steps steps) {
    const double level = 1 - FirstTolerance(positions_);
    const auto& values = trajectory.min_slash();
    const double taken = AddLevel(run + ".steps_to_slash", 0, steps.first, level,
                                  *std::max_element(values.begin(), values.begin() + steps.first + 1),
                                  [&](int i) { return values[i] >= level; });
    return std::isfinite(taken) ? std::optional<double>(taken) : std::nullopt;
  }

  void AddFull(const Trajectory& trajectory, Steps steps) {
    const double level = SecondTolerance(positions_);
    const auto missed = [&](int i) { return std::pow(1 - trajectory.feature_share(i), 2); };
    double nearest_share = missed(steps.first), nearest_loss = trajectory.loss(steps.first);
    for (int i = steps.first; i <= steps.first + steps.second; ++i) {
      nearest_share = std::min(nearest_share, missed(i));
      nearest_loss = std::min(nearest_loss, trajectory.loss(i));
    }
    AddLevel("full.stage2_steps_to_feature", steps.first, steps.second, level, nearest_share,
             [&](int i) { return missed(i) <= level; });
    AddLevel("full.stage2_steps_to_loss", steps.first, steps.second, level, nearest_loss,
             [&](int i) { return trajectory.loss(i) <= level; });
    AddRow("full.start_", trajectory, 0);
    AddRow("full.stage1_end_", trajectory, steps.first);
    AddRow("full.end_", trajectory, steps.first + steps.second);
    AddJudged(trajectory);
  }

  // On the watched prompts.
  void AddRow(const std::string& prefix, const Trajectory& trajectory, int row) {
    Add(prefix + "min_slash", trajectory.min_slash(row));
    Add(prefix + "mean_slash", trajectory.mean_slash(row));
    Add(prefix + "feature_share", trajectory.feature_share(row), "", std::nullopt, kShallowWatched);
    Add(prefix + "loss", trajectory.loss(row), "", std::nullopt, kShallowWatched);
  }

  // On fresh prompts: as trained, and with tasks that training never drew.
  void AddJudged(const Trajectory& trajectory) {
    const std::string no_answers = "the answers are all 0";
    const auto relative = [](const v1::ShallowLoss& loss) { return loss.loss() / loss.half_square(); };
    const double known = relative(trajectory.in_distribution());
    Add("full.fresh_feature_share", trajectory.end_feature_share(), "", std::nullopt, kShallowJudged);
    const std::pair<const char*, const v1::ShallowLoss*> laws[] = {{"fresh", &trajectory.in_distribution()},
                                                                   {"scaled", &trajectory.scaled()},
                                                                   {"shifted", &trajectory.shifted()}};
    for (const auto& [law, loss] : laws) {
      const std::string name = absl::StrCat("full.", law, "_loss");
      Add(name, loss->loss(), "", std::nullopt, kShallowJudged);
      Add(name + "_relative", relative(*loss), no_answers, std::nullopt, kShallowJudged);
      if (loss != &trajectory.in_distribution()) {
        Add(name + "_relative_to_fresh", relative(*loss) / known, "the loss on fresh prompts is 0",
            std::nullopt, kShallowJudged);
      }
    }
  }

  void AddMustFail(const ShallowVariant& variant, const Trajectory& trajectory) {
    const double highest = *std::max_element(trajectory.min_slash().begin(), trajectory.min_slash().end());
    Add(variant.name + ".highest_min_slash", highest, "", variant.ceiling);
    Add(variant.name + ".fails", highest <= variant.ceiling ? 1 : 0, "", variant.ceiling);
  }

  void AddBand(const ShallowVariant& variant, const Trajectory& trajectory, Steps steps,
               std::optional<double> full_steps) {
    const std::optional<double> taken = AddStepsToSlash(variant.name, trajectory, steps);
    const bool both = taken.has_value() && full_steps.value_or(0) > 0;
    Add(variant.name + ".steps_ratio", both ? *taken / *full_steps : std::nan(""),
        !taken.has_value()       ? "this run did not reach the level"
        : full_steps.has_value() ? "the full set needs no step"
                                 : "the full set did not reach the level");
  }

  void AddEmptyBand(const ShallowVariant& variant) {
    const std::string because =
        absl::StrCat("the band is empty: ", variants_[0].theta.size(), " frequencies");
    Add(variant.name + ".steps_to_slash", std::nan(""), because, 1 - FirstTolerance(positions_));
    Add(variant.name + ".steps_ratio", std::nan(""), because);
  }

  const v1::ShallowTraining& training_;
  const Context& context_;
  const int64_t positions_;
  const std::vector<ShallowVariant> variants_;
  const FrequencyCondition condition_;
  TableBuilder series_{"series", WithLeadingColumns({{"name", v1::Column::TEXT, true},
                                                     {"x", v1::Column::REAL, true},
                                                     {"y", v1::Column::REAL, false}})};
  TableBuilder statistics_ = StatisticsTable();
  int64_t seed_ = 0;
};

}  // namespace

absl::StatusOr<Results> ShallowTrainingExperiment::Reduce(const v1::ExperimentSpec& spec,
                                                          const Context& context,
                                                          StageReadings& readings) const {
  using Trajectories = std::map<int64_t, Trajectory>;
  ROPELAB_ASSIGN_OR_RETURN(const Trajectories trajectories, ReadTrajectories(readings));
  Tables tables(spec.shallow_training(), context);
  int64_t task = 0;
  for (const uint64_t seed : spec.seeds()) {
    ROPELAB_RETURN_IF_ERROR(tables.AddSeed(static_cast<int64_t>(seed), task, trajectories));
  }
  return tables.Finish();
}

}  // namespace ropelab::experiments
