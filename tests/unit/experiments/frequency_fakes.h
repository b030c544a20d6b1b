// A frequency analysis of readings that were never measured: simple numbers, so that what is made of them is
// worked by hand.
#pragma once

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "fakes.h"
#include "server/experiments/frequency_analysis.h"

namespace ropelab::experiments {

inline constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// Ten prompts of 64 tokens, two blocks; heads L0H2 at offset 2 and L1H3 at offset 7, of eight pairs.
inline std::string Frequency(const std::string& fields = "", const std::string& lead = "") {
  return "name: 'x' model: 'toy' " + lead +
         " frequency_analysis { heads { list { head { layer: 1 head: 3 offset: 7 } head { layer: 0 head: 2 "
         "offset: 2 } } } prompts { uniform_tokens { count: 10 tokens: 64 } } " +
         fields + " }";
}

// The first sample of a block and its count stand for its prompts: what a block sums is linear in them.
inline double SumOfSamples(const v1::SampleBlock& samples) {
  double sum = 0;
  for (int64_t i = 0; i < samples.count(); ++i) {
    sum += static_cast<double>(samples.first_sample() + i);
  }
  return sum;
}

// Pair l (from 0) has query (3, 4) and key (0, 2), so amplitude 10 times the squared factor; InP at the lag
// falls by halves, mean InP is -1, mean |InP| grows with the pair, and sample s adds s to the first of them.
inline void Profile(const v1::FrequencyProfile& request, std::vector<v1::Reading>& readings) {
  const v1::SampleBlock& samples = request.prompts().samples();
  const double count = static_cast<double>(samples.count());
  for (const v1::MeasuredHead& head : request.heads()) {
    v1::HeadFrequencies& said = *readings.emplace_back().mutable_head_frequencies();
    said.set_layer(head.layer());
    said.set_head(head.head());
    said.set_prompts(samples.count());
    said.set_attention_factor(2);
    for (int pair = 0; pair < 8; ++pair) {
      said.add_theta(std::ldexp(1.0, -pair));
      said.mutable_means()->add_query(3 * count);
      said.mutable_means()->add_query(4 * count);
      said.mutable_means()->add_key(0);
      said.mutable_means()->add_key(2 * count);
      said.add_mean_inp(pair == 0 ? SumOfSamples(samples) : -count);
      said.add_mean_abs_inp(count * (pair + 1));
      said.add_inp_at_lag(count * std::ldexp(1.0, -pair));
    }
    for (const int64_t row : request.rows()) {
      for (const int first : {0, 5}) {  // pairs 1 to 5, 6 to 8
        v1::HeatMapPiece& piece = *readings.emplace_back().mutable_heat_map_piece();
        piece.set_layer(head.layer());
        piece.set_head(head.head());
        piece.set_row(row);
        piece.set_prompts(samples.count());
        piece.set_first_pair(first + 1);
        piece.set_pairs(first == 0 ? 5 : 3);
        for (int pair = first; pair < first + piece.pairs(); ++pair) {
          for (int64_t key = 0; key <= row; ++key) {
            piece.add_inp(SumOfSamples(samples) + count * static_cast<double>(100 * pair + key));
          }
          piece.add_std(count * (0.5 + pair + static_cast<double>(row)));
        }
      }
    }
  }
}

// A score of 0.5 as it is; list r of one or more pairs leaves 0.5 / (r + 1) at layer 0 and 1 / (r + 1) at 1.
inline void Scores(const v1::SlashProfile& request, std::vector<v1::Reading>& readings) {
  readings.emplace_back().mutable_slash_block()->set_layer(0);  // of the range, which nobody reads
  for (int removal = 1; removal <= request.removals_size(); ++removal) {
    for (const v1::MeasuredHead& head : request.heads()) {
      v1::SlashBlock& block = *readings.emplace_back().mutable_slash_block();
      block.set_removal(removal);
      block.set_layer(head.layer());
      block.set_first_head(head.head());
      block.set_heads(1);
      block.set_first_offset(head.offset());
      block.set_offsets(1);
      block.set_prompts(request.prompts().samples().count());
      block.add_mean(removal == 1 ? 0.5 : (head.layer() == 0 ? 0.5 : 1.0) / removal);
      block.add_m2(0);
    }
  }
}

inline void Fits(const v1::FrequencyFits& request, std::vector<v1::Reading>& readings) {
  const v1::SampleBlock& samples = request.prompts().samples();
  for (int64_t i = 0; i < samples.count(); ++i) {
    for (const v1::MeasuredHead& head : request.heads()) {
      v1::HeadFit& fit = *readings.emplace_back().mutable_head_fit();
      fit.set_sample(samples.first_sample() + i);
      fit.set_layer(head.layer());
      fit.set_head(head.head());
      fit.set_r2(static_cast<double>(fit.sample()) + head.layer());
      fit.set_r2_centred(0.5);
      fit.set_eta2(fit.sample() == 3 && head.layer() == 1 ? kNone : 0.25);
    }
  }
}

using Change = std::function<void(int64_t stage, int64_t task, std::vector<v1::Reading>& readings)>;

inline absl::StatusOr<Results> RunAll(const std::string& spec, const Change& change = nullptr,
                                      ModelFacts model = ToyModel()) {
  const ResolvedExperiment experiment = Resolved(spec, FakeCatalogue({model}));
  const Context context = ContextOf({model});
  FakeReadings readings;
  for (int64_t stage = 1; stage <= 2; ++stage) {
    auto plan = FindKind(experiment.kind)->experiment->Plan(experiment.resolved, context, stage, readings);
    if (!plan.ok()) {
      return plan.status();
    }
    int64_t task = 0;
    for (const PlannedTask& planned : plan->value_or(StagePlan())) {
      std::vector<v1::Reading> said;
      if (planned.measurement.has_frequency_profile()) {
        Profile(planned.measurement.frequency_profile(), said);
      } else if (planned.measurement.has_slash_profile()) {
        Scores(planned.measurement.slash_profile(), said);
      } else {
        Fits(planned.measurement.frequency_fits(), said);
      }
      if (change) {
        change(stage, task, said);
      }
      ++task;
      readings.Add(stage, planned.measurement, said);
    }
  }
  return FindKind("frequency_analysis")->experiment->Reduce(experiment.resolved, context, readings);
}

inline double RealAt(const Table& table, const std::string& column, int row) {
  EXPECT_FALSE(NullAt(ColumnNamed(table, column), row)) << column << " " << row;
  return ColumnNamed(table, column).reals(row);
}

struct Statistic {
  std::optional<double> value, threshold;
  int64_t n = 0;
  std::string because;
};
inline Statistic StatisticNamed(const Results& results, const std::string& name) {
  const Table& table = TableNamed(results, "statistics");
  for (int row = 0; row < static_cast<int>(table.slice.rows()); ++row) {
    if (ColumnNamed(table, "name").texts(row) == name) {
      const auto real = [&](const char* column) {
        return NullAt(ColumnNamed(table, column), row)
                   ? std::nullopt
                   : std::optional<double>(ColumnNamed(table, column).reals(row));
      };
      return {real("value"), real("threshold"), ColumnNamed(table, "n").integers(row),
              ColumnNamed(table, "undefined_because").texts(row)};
    }
  }
  ADD_FAILURE() << "no statistic " << name;
  return {};
}

}  // namespace ropelab::experiments
