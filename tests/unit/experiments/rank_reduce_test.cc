#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "fakes.h"
#include "server/experiments/rank_analysis.h"
#include "server/experiments/rank_tables.h"

namespace ropelab::experiments {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// Two layers of four query heads and two KV heads. What every task of a plan says is linear in the sample, so
// means over samples are exact. A Change alters the readings of a task.
using Change = std::function<void(int64_t task, std::vector<v1::Reading>& readings)>;

v1::Reading Spectra(int64_t sample, int layer) {
  v1::Reading reading;
  v1::LayerSpectra& spectra = *reading.mutable_layer_spectra();
  spectra.set_sample(sample);
  spectra.set_layer(layer);
  const double s = static_cast<double>(sample);
  for (int head = 0; head < 4; ++head) {
    spectra.add_query_r1(0.25 * s + 0.5 * layer + 2 * head);
    spectra.add_query_rank(sample + head);
    spectra.add_query_norm_rv(s + 10 * head);
  }
  for (int head = 0; head < 2; ++head) {
    spectra.add_key_r1(0.5 * s + 100 * head);
    spectra.add_key_rank(2 * sample + head);
    spectra.add_key_norm_rv(3 * s + head);
  }
  spectra.set_hidden_r1(s + 0.125 * layer);
  spectra.set_hidden_rank(4 * sample + layer);
  return reading;
}

v1::Reading Weights(int layer) {
  v1::Reading reading;
  v1::WeightSpectra& spectra = *reading.mutable_weight_spectra();
  spectra.set_layer(layer);
  for (int head = 0; head < 4; ++head) {
    spectra.add_query_r1(0.5 * layer + 0.125 * head);
    spectra.add_query_rank(10 * layer + head);
  }
  for (int head = 0; head < 2; ++head) {
    spectra.add_key_r1(0.25 * layer + 0.0625 * head);
    spectra.add_key_rank(20 * layer + head);
  }
  return reading;
}

v1::Reading Vocabulary(v1::Matrix::Value matrix, bool bias) {
  v1::Reading reading;
  v1::VocabularySide& side = *reading.mutable_vocabulary_side();
  side.set_matrix(matrix);
  side.set_tokens(100);
  const int heads = matrix == v1::Matrix::QUERY ? 4 : 2;
  const double scale = matrix == v1::Matrix::QUERY ? 1 : 10;
  for (int head = 0; head < heads; ++head) {
    side.add_r1(scale * (1 + head));
    side.add_rank(3 + head);
    side.add_aligned_r1(scale * (0.5 + head));
    side.add_aligned_rank(2.5 + head);
    side.add_axis_rv(scale * (0.25 + head));
    side.add_mean_norm(4 * scale);
    if (bias) {
      side.add_bias_norm(8 * scale * (1 + head));
    }
    v1::CosineCounts& cosines = *side.add_cosines();
    for (int bin = 0; bin < 4; ++bin) {
      cosines.add_counts(static_cast<int64_t>(scale) * (head + bin));
    }
  }
  for (int vector = 0; vector < 100; ++vector) {
    side.add_random_rv(99 - vector);  // 0 to 99 in another order
  }
  return reading;
}

std::vector<v1::Reading> Measure(const v1::Measurement& measurement, bool bias) {
  std::vector<v1::Reading> readings;
  if (measurement.has_query_key_profile()) {
    const v1::QueryKeyProfile& profile = measurement.query_key_profile();
    const v1::SampleBlock& samples = profile.prompts().samples();
    for (int64_t sample = samples.first_sample(); sample < samples.first_sample() + samples.count();
         ++sample) {
      readings.push_back(Spectra(sample, 0));
      readings.push_back(Spectra(sample, 1));
    }
    if (profile.view_rows() > 0) {
      v1::Reading& views = readings.emplace_back();
      views.mutable_views()->set_artifact("views.safetensors");
      v1::ArtifactName& artifact = *views.add_artifacts();
      artifact.set_name("views.safetensors");
      artifact.set_sha256(std::string(64, '7'));
      artifact.set_bytes(123);
    }
  } else if (measurement.weight_profile().has_vocabulary()) {
    readings.push_back(Vocabulary(v1::Matrix::QUERY, bias));
    readings.push_back(Vocabulary(v1::Matrix::KEY, bias));
  } else {
    readings.push_back(Weights(0));
    readings.push_back(Weights(1));
  }
  return readings;
}

absl::StatusOr<Results> RunAll(const std::string& spec, bool bias = false, const Change& change = nullptr) {
  const ResolvedExperiment experiment = Resolved(spec);
  const Context context = ContextOf({ToyModel()});
  FakeReadings readings;
  int64_t task = 0;
  for (const PlannedTask& planned : PlanOf(experiment, context, 1, readings)) {
    std::vector<v1::Reading> said = Measure(planned.measurement, bias);
    if (change) {
      change(task, said);
    }
    readings.Add(1, planned.measurement, said);
    ++task;
  }
  return FindKind("rank_analysis")->experiment->Reduce(experiment.resolved, context, readings);
}

// Ten prompts, two blocks; tasks: weights 0, vocabulary 1, prompts 2 and 3.
std::string RankOf(const std::string& fields = "", const std::string& lead = "",
                   const std::string& heads = "head { layer: 0 head: 3 } head { layer: 1 head: 2 }") {
  return "name: 'x' model: 'toy' " + lead + " rank_analysis { heads { list { " + heads +
         " } } prompts { uniform_tokens { count: 10 tokens: 64 } } " + fields + " }";
}

// Row of a table by its key columns' text.
int RowOf(const Table& table, const std::string& matrix, int64_t layer, std::optional<int64_t> head,
          int64_t seed = 42, const char* column = "matrix") {
  for (int row = 0; row < static_cast<int>(table.slice.rows()); ++row) {
    const bool null = NullAt(ColumnNamed(table, "head"), row);
    if (ColumnNamed(table, column).texts(row) == matrix &&
        ColumnNamed(table, "layer").integers(row) == layer &&
        ColumnNamed(table, "seed").integers(row) == seed &&
        (head.has_value() ? !null && ColumnNamed(table, "head").integers(row) == *head : null)) {
      return row;
    }
  }
  ADD_FAILURE() << "no row " << matrix << " " << layer;
  return 0;
}

double RealAt(const Table& table, const std::string& column, int row) {
  EXPECT_FALSE(NullAt(ColumnNamed(table, column), row)) << column << " " << row;
  return ColumnNamed(table, column).reals(row);
}

struct Statistic {
  std::optional<double> value, low, high;
  int64_t n;
  std::string because;
};
Statistic StatisticNamed(const Results& results, const std::string& name) {
  const Table& table = TableNamed(results, "statistics");
  for (int row = 0; row < static_cast<int>(table.slice.rows()); ++row) {
    if (ColumnNamed(table, "name").texts(row) == name) {
      const auto real = [&](const char* column) {
        return NullAt(ColumnNamed(table, column), row)
                   ? std::nullopt
                   : std::optional<double>(ColumnNamed(table, column).reals(row));
      };
      return {real("value"), real("low"), real("high"), ColumnNamed(table, "n").integers(row),
              ColumnNamed(table, "undefined_because").texts(row)};
    }
  }
  ADD_FAILURE() << "no statistic " << name;
  return {};
}

// Means over samples 0 to 9 are those of sample 4.5.
TEST(RankReduce, SpectraAreMeansOverThePromptsOneRowPerQueryHead) {
  const auto results = RunAll(RankOf());
  ASSERT_TRUE(results.ok()) << results.status();
  const Table& spectra = TableNamed(*results, "spectra");
  // Q, K, W_Q, W_K of eight heads, H of two layers, Q and K over the vocabulary of four heads.
  EXPECT_EQ(spectra.slice.rows(), 4 * 8 + 2 + 2 * 4);
  EXPECT_TRUE(spectra.whole_in_sql);

  const int q = RowOf(spectra, "Q", 1, 2);
  EXPECT_EQ(RealAt(spectra, "r1", q), 0.25 * 4.5 + 0.5 + 4);
  EXPECT_EQ(RealAt(spectra, "rank", q), 4.5 + 2);
  EXPECT_EQ(ColumnNamed(spectra, "prompts").integers(q), 10);
  EXPECT_EQ(ColumnNamed(spectra, "dominant").integers(q), 1);

  const int k = RowOf(spectra, "K", 0, 2);
  EXPECT_EQ(RealAt(spectra, "r1", k), 0.5 * 4.5 + 100) << "query heads 2 and 3 share KV head 1";
  EXPECT_EQ(RealAt(spectra, "rank", k), 2 * 4.5 + 1);
  EXPECT_EQ(ColumnNamed(spectra, "dominant").integers(k), 0);
  EXPECT_EQ(RealAt(spectra, "r1", RowOf(spectra, "K", 0, 1)), 0.5 * 4.5);

  const int h = RowOf(spectra, "H", 1, std::nullopt);
  EXPECT_EQ(RealAt(spectra, "r1", h), 4.5 + 0.125);
  EXPECT_EQ(RealAt(spectra, "rank", h), 4 * 4.5 + 1);
  EXPECT_TRUE(NullAt(ColumnNamed(spectra, "dominant"), h));
  EXPECT_EQ(ColumnNamed(spectra, "prompts").integers(h), 10);

  const int wk = RowOf(spectra, "W_K", 1, 3);
  EXPECT_EQ(RealAt(spectra, "r1", wk), 0.25 + 0.0625);
  EXPECT_EQ(RealAt(spectra, "rank", wk), 21);
  EXPECT_TRUE(NullAt(ColumnNamed(spectra, "prompts"), wk));
  EXPECT_EQ(RealAt(spectra, "r1", RowOf(spectra, "W_Q", 1, 3)), 0.5 + 0.375);

  EXPECT_EQ(RealAt(spectra, "r1", RowOf(spectra, "Q_vocabulary", 0, 3)), 4);
  EXPECT_EQ(RealAt(spectra, "r1", RowOf(spectra, "K_vocabulary", 0, 3)), 20);
  EXPECT_EQ(RealAt(spectra, "rank", RowOf(spectra, "K_vocabulary", 0, 3)), 4);
}

TEST(RankReduce, NormsHaveOneRowPerQueryHead) {
  const auto results = RunAll(RankOf());
  ASSERT_TRUE(results.ok()) << results.status();
  const Table& norms = TableNamed(*results, "norms");
  EXPECT_EQ(norms.slice.rows(), 16);
  EXPECT_EQ(RealAt(norms, "rv", RowOf(norms, "Q", 1, 3, 42, "side")), 4.5 + 30);
  EXPECT_EQ(RealAt(norms, "rv", RowOf(norms, "K", 1, 3, 42, "side")), 3 * 4.5 + 1);
  EXPECT_EQ(ColumnNamed(norms, "dominant").integers(RowOf(norms, "K", 1, 2, 42, "side")), 1);
}

// Quartiles of 0 to 99 as numpy's default gives them: 24.75, 49.5, 74.25.
TEST(RankReduce, AlignmentHoldsTheConeItsBaselineAndTheBias) {
  const auto results = RunAll(RankOf(), true);
  ASSERT_TRUE(results.ok()) << results.status();
  const Table& alignment = TableNamed(*results, "alignment");
  EXPECT_EQ(alignment.slice.rows(), 8);
  const int row = RowOf(alignment, "W_K", 0, 3);
  EXPECT_EQ(RealAt(alignment, "r1", row), 15);
  EXPECT_EQ(RealAt(alignment, "rank", row), 3.5);
  EXPECT_EQ(RealAt(alignment, "rv", row), 12.5);
  EXPECT_EQ(RealAt(alignment, "rv_random_median", row), 49.5);
  EXPECT_EQ(RealAt(alignment, "rv_random_q1", row), 24.75);
  EXPECT_EQ(RealAt(alignment, "rv_random_q3", row), 74.25);
  EXPECT_EQ(RealAt(alignment, "mean_norm", row), 40);
  EXPECT_EQ(RealAt(alignment, "bias_norm", row), 160);
  EXPECT_EQ(RealAt(alignment, "bias_ratio", row), 4);
  EXPECT_EQ(ColumnNamed(alignment, "dominant").integers(row), 1);
  EXPECT_EQ(ColumnNamed(alignment, "dominant").integers(RowOf(alignment, "W_Q", 0, 2)), 0);

  const auto without = RunAll(RankOf());
  ASSERT_TRUE(without.ok());
  EXPECT_TRUE(NullAt(ColumnNamed(TableNamed(*without, "alignment"), "bias_ratio"), 0));
  EXPECT_TRUE(NullAt(ColumnNamed(TableNamed(*without, "alignment"), "bias_norm"), 0));
}

TEST(RankReduce, CosinesAreCountsAtTheCentresOfTheBins) {
  const auto results = RunAll(RankOf());
  ASSERT_TRUE(results.ok()) << results.status();
  const Table& series = TableNamed(*results, "series");
  ASSERT_EQ(series.slice.rows(), 8 * 4);
  EXPECT_TRUE(series.whole_in_sql);
  std::vector<double> x, y;
  for (int row = 0; row < 32; ++row) {
    if (ColumnNamed(series, "name").texts(row) == "cosine.W_K.L0H2") {
      x.push_back(ColumnNamed(series, "x").reals(row));
      y.push_back(ColumnNamed(series, "y").reals(row));
    }
  }
  EXPECT_THAT(x, ElementsAre(-0.75, -0.25, 0.25, 0.75));
  EXPECT_THAT(y, ElementsAre(10, 20, 30, 40));
}

TEST(RankReduce, AveragesOverTheDominantHeadsStandBesideThoseOverAll) {
  const auto results = RunAll(RankOf(), true);
  ASSERT_TRUE(results.ok()) << results.status();
  Statistic statistic = StatisticNamed(*results, "mean_r1_Q_dominant");  // L0H3 and L1H2
  EXPECT_EQ(*statistic.value, (0.25 * 4.5 + 6 + 0.25 * 4.5 + 0.5 + 4) / 2);
  EXPECT_EQ(statistic.n, 2);
  statistic = StatisticNamed(*results, "mean_r1_Q_all");
  EXPECT_EQ(*statistic.value, 0.25 * 4.5 + 0.25 + 3);
  EXPECT_EQ(statistic.n, 8);
  EXPECT_EQ(*StatisticNamed(*results, "mean_rank_K_all").value, 2 * 4.5 + 0.5);
  EXPECT_EQ(*StatisticNamed(*results, "mean_rank_W_Q_dominant").value, (3 + 12) / 2.0);
  EXPECT_EQ(*StatisticNamed(*results, "mean_norm_rv_Q_dominant").value, 4.5 + 25);
  statistic = StatisticNamed(*results, "mean_r1_Q_vocabulary_dominant");  // L0H3 alone
  EXPECT_EQ(*statistic.value, 4);
  EXPECT_EQ(statistic.n, 1);
  EXPECT_EQ(*StatisticNamed(*results, "mean_aligned_r1_W_Q_dominant").value, 3.5);
  EXPECT_EQ(*StatisticNamed(*results, "mean_aligned_r1_W_Q_all").value, 2);
  EXPECT_EQ(*StatisticNamed(*results, "mean_aligned_rank_W_K_all").value, 3);
  EXPECT_EQ(*StatisticNamed(*results, "mean_rv_W_K_all").value, 7.5);
  EXPECT_EQ(*StatisticNamed(*results, "mean_norm_W_K_dominant").value, 40);
  EXPECT_EQ(*StatisticNamed(*results, "mean_bias_norm_W_K_dominant").value, 160);
  EXPECT_EQ(*StatisticNamed(*results, "dominant_heads").value, 2);
  EXPECT_EQ(StatisticNamed(*results, "dominant_heads").n, 8);

  statistic = StatisticNamed(*results, "rv_random_median");
  EXPECT_EQ(*statistic.value, 49.5);
  EXPECT_EQ(*statistic.low, 24.75);
  EXPECT_EQ(*statistic.high, 74.25);
  EXPECT_EQ(statistic.n, 100);
  EXPECT_EQ(*StatisticNamed(*results, "rv_random_mean").value, 49.5);
}

TEST(RankReduce, HiddenStatesAreAveragedOverLayersOrThoseWithADominantHead) {
  const auto results = RunAll(RankOf("", "", "head { layer: 1 head: 0 } head { layer: 1 head: 1 }"));
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ(*StatisticNamed(*results, "mean_r1_H_all").value, 4.5 + 0.0625);
  EXPECT_EQ(StatisticNamed(*results, "mean_r1_H_all").n, 2);
  EXPECT_EQ(*StatisticNamed(*results, "mean_r1_H_dominant").value, 4.5 + 0.125);
  EXPECT_EQ(StatisticNamed(*results, "mean_r1_H_dominant").n, 1) << "a layer counts once";
}

TEST(RankReduce, NoDominantHeadInLayerZeroIsSaidSo) {
  const auto results = RunAll(RankOf("", "", "head { layer: 1 head: 0 }"));
  ASSERT_TRUE(results.ok()) << results.status();
  for (const char* name : {"mean_aligned_r1_W_Q_dominant", "mean_aligned_rank_W_K_dominant",
                           "mean_rv_W_Q_dominant", "mean_rank_K_vocabulary_dominant"}) {
    const Statistic statistic = StatisticNamed(*results, name);
    EXPECT_FALSE(statistic.value.has_value()) << name;
    EXPECT_EQ(statistic.n, 0) << name;
    EXPECT_EQ(statistic.because, "no head of the set is in layer 0") << name;
  }
  EXPECT_TRUE(StatisticNamed(*results, "mean_aligned_r1_W_Q_all").value.has_value());
}

TEST(RankReduce, WithoutTheVocabularyThereIsNeitherAlignmentNorSeries) {
  const auto results = RunAll(RankOf("vocabulary: false"));
  ASSERT_TRUE(results.ok()) << results.status();
  std::vector<std::string> names;
  for (const Table& table : results->tables) {
    names.push_back(table.slice.table());
  }
  EXPECT_THAT(names, testing::UnorderedElementsAre("spectra", "norms", "statistics"));
  EXPECT_EQ(TableNamed(*results, "spectra").slice.rows(), 4 * 8 + 2);
}

TEST(RankReduce, WhatADegenerateMatrixLeavesUndefinedIsNull) {
  const auto results = RunAll(RankOf(), true, [](int64_t task, std::vector<v1::Reading>& readings) {
    if (task == 2) {  // sample 1, layer 0
      readings[2].mutable_layer_spectra()->set_query_r1(0, kNone);
      readings[2].mutable_layer_spectra()->set_query_rank(0, 0);
      readings[2].mutable_layer_spectra()->set_key_norm_rv(0, std::numeric_limits<double>::infinity());
    } else if (task == 1) {
      readings[0].mutable_vocabulary_side()->set_mean_norm(0, 0);
      readings[0].mutable_vocabulary_side()->set_aligned_r1(0, kNone);
      readings[0].mutable_vocabulary_side()->set_random_rv(5, kNone);
    }
  });
  ASSERT_TRUE(results.ok()) << results.status();
  const Table& spectra = TableNamed(*results, "spectra");
  const int q = RowOf(spectra, "Q", 0, 0);
  EXPECT_TRUE(NullAt(ColumnNamed(spectra, "r1"), q));
  EXPECT_TRUE(NullAt(ColumnNamed(spectra, "rank"), q));
  EXPECT_FALSE(NullAt(ColumnNamed(spectra, "r1"), RowOf(spectra, "Q", 0, 1)));
  EXPECT_EQ(StatisticNamed(*results, "mean_r1_Q_all").n, 7);
  const Table& norms = TableNamed(*results, "norms");
  EXPECT_TRUE(NullAt(ColumnNamed(norms, "rv"), RowOf(norms, "K", 0, 1, 42, "side")));
  const Table& alignment = TableNamed(*results, "alignment");
  const int row = RowOf(alignment, "W_Q", 0, 0);
  EXPECT_TRUE(NullAt(ColumnNamed(alignment, "bias_ratio"), row)) << "8 / 0";
  EXPECT_TRUE(NullAt(ColumnNamed(alignment, "r1"), row));
  EXPECT_TRUE(NullAt(ColumnNamed(alignment, "rank"), row));
  EXPECT_TRUE(NullAt(ColumnNamed(alignment, "rv_random_median"), row));
  EXPECT_FALSE(StatisticNamed(*results, "rv_random_median").value.has_value());
  EXPECT_THAT(StatisticNamed(*results, "rv_random_median").because, HasSubstr("random vector"));
}

TEST(RankReduce, SumsRunInSampleOrder) {
  const auto results = RunAll(RankOf(), false, [](int64_t task, std::vector<v1::Reading>& readings) {
    for (v1::Reading& reading : readings) {
      if (task >= 2 && reading.layer_spectra().layer() == 0) {
        v1::LayerSpectra& spectra = *reading.mutable_layer_spectra();
        const double values[] = {1e16, 1, 1, 1, 1, 1, 1, 1, 1, -1e16};
        spectra.set_query_r1(0, values[spectra.sample()]);
      }
    }
  });
  ASSERT_TRUE(results.ok()) << results.status();
  const Table& spectra = TableNamed(*results, "spectra");
  // 1e16 + 1 is 1e16 in doubles, each time; from the end 8 would remain.
  EXPECT_EQ(RealAt(spectra, "r1", RowOf(spectra, "Q", 0, 0)), 0);
}

TEST(RankReduce, SeedsHaveRowsOfTheirOwnAndOneHistogram) {
  const auto results = RunAll(RankOf("block: 4", "seeds: [9, 3]"));
  ASSERT_TRUE(results.ok()) << results.status();
  const Table& spectra = TableNamed(*results, "spectra");
  EXPECT_EQ(spectra.slice.rows(), 2 * (4 * 8 + 2 + 2 * 4));
  EXPECT_EQ(ColumnNamed(spectra, "seed").integers(0), 3) << "ascending";
  EXPECT_EQ(RealAt(spectra, "r1", RowOf(spectra, "W_Q", 1, 3, 3)),
            RealAt(spectra, "r1", RowOf(spectra, "W_Q", 1, 3, 9)));
  EXPECT_EQ(TableNamed(*results, "series").slice.rows(), 8 * 4);
  ASSERT_EQ(results->artifacts.size(), 2u);
  EXPECT_EQ(results->artifacts[0].name(), "views.toy.3.safetensors");
  EXPECT_EQ(results->artifacts[1].name(), "views.toy.9.safetensors");
}

TEST(RankReduce, TheViewsAreTheTasksOwnFile) {
  const auto results = RunAll(RankOf("block: 4"));
  ASSERT_TRUE(results.ok()) << results.status();
  ASSERT_EQ(results->artifacts.size(), 1u);
  EXPECT_EQ(results->artifacts[0].name(), "views.safetensors");
  EXPECT_EQ(results->artifacts[0].sha256(), std::string(64, '7'));
  EXPECT_EQ(results->artifacts[0].bytes(), 123);
}

// 300 heads of 200 bins, queries and keys: 120 000 rows.
TEST(RankReduce, OfALongSeriesSqlHoldsTheDominantHeads) {
  ModelFacts model = ToyModel();
  model.config.set_query_heads(300);
  model.config.set_kv_heads(100);
  RankGroup group;
  group.model = &model;
  group.label = "toy";
  group.dominant = {{0, 7}, {1, 9}};
  v1::VocabularySide side;
  for (int head = 0; head < 300; ++head) {
    v1::CosineCounts& cosines = *side.add_cosines();
    for (int bin = 0; bin < 200; ++bin) {
      cosines.add_counts(head);
    }
  }
  group.vocabulary_query = side;
  group.vocabulary_key = side;
  RankGroup other = group;
  other.seed = 1;
  other.dominant = {{0, 8}};
  const Table series = CosineSeries({group, other}, "c");
  EXPECT_EQ(series.slice.rows(), 120000);
  EXPECT_FALSE(series.whole_in_sql);
  EXPECT_EQ(series.sql_rows.size(), 2u * 2u * 200u) << "heads 7 and 8 of layer 0";
  std::set<std::string> names;
  for (const int64_t row : series.sql_rows) {
    names.insert(ColumnNamed(series, "name").texts(static_cast<int>(row)));
  }
  EXPECT_THAT(names, ElementsAre("cosine.W_K.L0H7", "cosine.W_K.L0H8", "cosine.W_Q.L0H7", "cosine.W_Q.L0H8"));
}

struct Wrong {
  const char* what;
  Change change;
  const char* said;
};

TEST(RankReduce, ReadingsThatAreNotThePlansAreInternal) {
  using Readings = std::vector<v1::Reading>;
  const Wrong wrongs[] = {
      {"a layer twice",
       [](int64_t task, Readings& r) {
         if (task == 2) r.insert(r.begin() + 2, r[0]);
       },
       "sample 0 was given where sample 1 is due"},
      {"a layer missing",
       [](int64_t task, Readings& r) {
         if (task == 2) r.erase(r.begin());
       },
       "sample 1 was given where sample 0 is due"},
      {"the last sample missing",
       [](int64_t task, Readings& r) {
         if (task == 3) r.pop_back();
       },
       "layer 1 has spectra of 9 prompts, not 10"},
      {"a layer beyond the model",
       [](int64_t task, Readings& r) {
         if (task == 2) r[0].mutable_layer_spectra()->set_layer(2);
       },
       "a spectrum of layer 2"},
      {"too few heads",
       [](int64_t task, Readings& r) {
         if (task == 2) r[0].mutable_layer_spectra()->mutable_key_r1()->RemoveLast();
       },
       "does not hold 4 query heads and 2 KV heads"},
      {"weights missing",
       [](int64_t task, Readings& r) {
         if (task == 0) r.pop_back();
       },
       "the weights of 1 of 2 layers"},
      {"weights out of order",
       [](int64_t task, Readings& r) {
         if (task == 0) std::swap(r[0], r[1]);
       },
       "layer 1 were given where layer 0 is due"},
      {"keys missing",
       [](int64_t task, Readings& r) {
         if (task == 1) r.pop_back();
       },
       "the vocabulary's queries or keys were not given"},
      {"queries twice",
       [](int64_t task, Readings& r) {
         if (task == 1) r[1] = r[0];
       },
       "twice"},
      {"another vocabulary",
       [](int64_t task, Readings& r) {
         if (task == 1) r[0].mutable_vocabulary_side()->set_tokens(99);
       },
       "the vocabulary gave 99 tokens"},
      {"views missing",
       [](int64_t task, Readings& r) {
         if (task == 2) r.pop_back();
       },
       "the views were not given"},
      {"a reading of another kind",
       [](int64_t task, Readings& r) {
         if (task == 3) r[0].mutable_slash_block();
       },
       "task 3 gave a reading that is no part of its measurement"},
  };
  for (const Wrong& wrong : wrongs) {
    const auto results = RunAll(RankOf("block: 4"), false, wrong.change);
    EXPECT_EQ(results.status().code(), absl::StatusCode::kInternal) << wrong.what;
    EXPECT_THAT(std::string(results.status().message()), HasSubstr(wrong.said)) << wrong.what;
  }
}

}  // namespace
}  // namespace ropelab::experiments
