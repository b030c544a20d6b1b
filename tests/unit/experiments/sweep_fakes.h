// Sweeps that were never run: models whose heads look at the needle as often as a test says.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fakes.h"

namespace ropelab::experiments {

// Two layers of four heads; checkpoints of one training differ in their weights.
inline ModelFacts SweepModel(const std::string& name, char weights) {
  ModelFacts model = ReadingModel(name);
  model.weights_hash = std::string(64, weights);
  return model;
}

// What a fake model does. Heads are counted through: layer * 4 + head.
struct FakeHeads {
  std::function<double(const PlannedTask&, int64_t head, int64_t sample)> argmax, mass;  // of one sample
  std::function<double(const PlannedTask&, int64_t head, int64_t dim)> norm;             // of a query row
};

// Readings of every task of a stage of a sweep.
inline void Measure(const StagePlan& plan, int64_t stage, const FakeHeads& fake, FakeReadings& readings) {
  for (const PlannedTask& task : plan) {
    std::vector<v1::Reading> given;
    if (task.measurement.has_weight_profile()) {
      for (int32_t layer = 0; layer < 2; ++layer) {
        v1::QueryRowNorms& norms = *given.emplace_back().mutable_query_row_norms();
        norms.set_layer(layer);
        norms.set_heads(4);
        norms.set_head_dim(16);
        for (int64_t row = 0; row < 4 * 16; ++row) {
          norms.add_norm(fake.norm(task, layer * 4 + row / 16, row % 16));
        }
      }
    } else {
      const v1::PromptBlock& prompts = task.measurement.needle_attention().prompts();
      for (int64_t i = 0; i < prompts.samples().count(); ++i) {
        const int64_t sample = prompts.samples().first_sample() + i;
        v1::NeedleHeads& heads = *given.emplace_back().mutable_needle_heads();
        heads.mutable_realised()->set_sample(sample);
        heads.mutable_realised()->set_fits(true);
        heads.mutable_realised()->set_tokens(250);
        for (int64_t head = 0; head < 8; ++head) {
          heads.add_argmax(fake.argmax(task, head, sample));
          heads.add_mass(fake.mass(task, head, sample));
        }
      }
    }
    readings.Add(stage, task.measurement, std::move(given));
  }
}

// One row of `statistics`; what is asked for must be there once.
struct StatisticOf {
  std::string name, model = {}, dtype = {}, detector = {};  // empty: any
  double threshold = -1;                                    // negative: any
  int64_t seed = -1;
};
inline int RowOf(const Table& table, const StatisticOf& wanted) {
  const auto text = [&](const char* column, const std::string& value, int row) {
    return value.empty() || ColumnNamed(table, column).texts(row) == value;
  };
  std::vector<int> rows;
  for (int row = 0; row < static_cast<int>(table.slice.rows()); ++row) {
    const v1::Column& threshold = ColumnNamed(table, "threshold");
    const bool fits =
        wanted.threshold < 0 || (!NullAt(threshold, row) && threshold.reals(row) == wanted.threshold);
    if (fits && text("name", wanted.name, row) && text("model", wanted.model, row) &&
        text("dtype", wanted.dtype, row) && text("detector", wanted.detector, row) &&
        (wanted.seed < 0 || ColumnNamed(table, "seed").integers(row) == wanted.seed)) {
      rows.push_back(row);
    }
  }
  EXPECT_EQ(rows.size(), 1u) << wanted.name << " " << wanted.model << " " << wanted.dtype << " "
                             << wanted.detector << " " << wanted.threshold;
  return rows.empty() ? 0 : rows[0];
}
inline std::optional<double> ValueOf(const Table& table, const StatisticOf& wanted,
                                     const char* column = "value") {
  const int row = RowOf(table, wanted);
  const v1::Column& values = ColumnNamed(table, column);
  if (NullAt(values, row)) {
    return std::nullopt;
  }
  return values.type() == v1::Column::INTEGER ? static_cast<double>(values.integers(row)) : values.reals(row);
}

}  // namespace ropelab::experiments
