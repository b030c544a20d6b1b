#include "server/experiments/rank_tables.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "server/experiments/rank_averages.h"
#include "server/experiments/table_builder.h"
#include "server/statistics/quantiles.h"

namespace ropelab::experiments {
namespace {

using Value = std::optional<double>;

Value Finite(double value) {
  return std::isfinite(value) ? Value(value) : std::nullopt;
}

// The rank of a matrix that has no spectrum is none either.
Value RankOf(double r1, double rank) {
  return std::isfinite(r1) ? Finite(rank) : std::nullopt;
}

std::vector<ColumnShape> HeadColumns(const char* matrix, std::vector<ColumnShape> columns) {
  columns.insert(columns.begin(), {{"seed", v1::Column::INTEGER, true},
                                   {matrix, v1::Column::TEXT, true},
                                   {"layer", v1::Column::INTEGER, true},
                                   {"head", v1::Column::INTEGER, true}});
  columns.push_back({"dominant", v1::Column::BOOLEAN, false});
  return WithLeadingColumns(std::move(columns));
}

std::vector<ColumnShape> Reals(const std::vector<const char*>& names) {
  std::vector<ColumnShape> columns;
  for (const char* name : names) {
    columns.push_back({name, v1::Column::REAL, false});
  }
  return columns;
}

std::vector<ColumnShape> SpectraColumns() {
  std::vector<ColumnShape> columns = Reals({"r1", "rank"});
  columns.push_back({"prompts", v1::Column::INTEGER, false});
  return HeadColumns("matrix", std::move(columns));
}

// The baseline of a cone: quartiles of the random vectors' relative variations, and their mean.
struct RandomVariation {
  Value median, q1, q3, mean;
  int64_t n = 0;
};
RandomVariation VariationOf(const v1::VocabularySide& side) {
  RandomVariation variation;
  const std::vector<double> values(side.random_rv().begin(), side.random_rv().end());
  variation.n = static_cast<int64_t>(values.size());
  if (std::any_of(values.begin(), values.end(), [](double value) { return std::isnan(value); })) {
    return variation;  // they have no order
  }
  const statistics::FiveNumbers numbers = statistics::FiveNumbersOf(values);
  variation.median = Finite(numbers.median);
  variation.q1 = Finite(numbers.q1);
  variation.q3 = Finite(numbers.q3);
  variation.mean =
      Finite(std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size()));
  return variation;
}

class Writer {
 public:
  explicit Writer(const std::string& numerics_class)
      : numerics_class_(numerics_class),
        spectra_("spectra", SpectraColumns()),
        norms_("norms", HeadColumns("side", Reals({"rv"}))),
        alignment_("alignment",
                   HeadColumns("matrix", Reals({"r1", "rank", "rv", "rv_random_median", "rv_random_q1",
                                                "rv_random_q3", "bias_ratio", "mean_norm", "bias_norm"}))),
        statistics_(StatisticsTable()) {}

  void Add(const RankGroup& group) {
    RankAverages averages;
    for (int64_t layer = 0; layer < group.model->config.layers(); ++layer) {
      AddHidden(group, layer, averages);
      for (int64_t head = 0; head < group.model->config.query_heads(); ++head) {
        AddHead(group, layer, head, averages);
      }
    }
    if (group.vocabulary_query.has_value()) {
      AddSide(group, "Q", *group.vocabulary_query, averages);
      AddSide(group, "K", *group.vocabulary_key, averages);
      AddRandom(group);
    }
    AddCounts(group);
    averages.Write(group, numerics_class_, statistics_);
  }

  std::vector<Table> Finish(bool vocabulary) {
    std::vector<Table> tables;
    tables.push_back(spectra_.Finish(true));
    tables.push_back(norms_.Finish(true));
    tables.push_back(statistics_.Finish(true));
    if (vocabulary) {
      tables.push_back(alignment_.Finish(true));
    }
    return tables;
  }

 private:
  TableBuilder& Lead(TableBuilder& table, const RankGroup& group) {
    return table.Text(group.label).Text(group.dtype).Text(numerics_class_).Integer(group.seed);
  }

  // `head` is empty for a layer's hidden states, `prompts` for weights.
  void AddSpectrum(const RankGroup& group, const std::string& matrix, int64_t layer,
                   std::optional<int64_t> head, double r1, double rank, std::optional<int64_t> prompts,
                   bool dominant, RankAverages& averages) {
    Lead(spectra_, group).Text(matrix).Integer(layer).Integer(head);
    spectra_.Real(Finite(r1)).Real(RankOf(r1, rank)).Integer(prompts);
    spectra_.Boolean(head.has_value() ? std::optional<bool>(dominant) : std::nullopt);
    averages.Add("r1_" + matrix, Finite(r1), dominant);
    averages.Add("rank_" + matrix, RankOf(r1, rank), dominant);
  }

  void AddHidden(const RankGroup& group, int64_t layer, RankAverages& averages) {
    const LayerMeans& means = group.layers[static_cast<size_t>(layer)];
    bool dominant = false;
    for (int64_t head = 0; head < group.model->config.query_heads(); ++head) {
      dominant = dominant || group.Dominant(layer, head);
    }
    AddSpectrum(group, "H", layer, std::nullopt, means.hidden_r1, means.hidden_rank, group.prompts, dominant,
                averages);
  }

  void AddHead(const RankGroup& group, int64_t layer, int64_t head, RankAverages& averages) {
    const LayerMeans& means = group.layers[static_cast<size_t>(layer)];
    const v1::WeightSpectra& weights = group.weights[static_cast<size_t>(layer)];
    const bool dominant = group.Dominant(layer, head);
    const size_t q = static_cast<size_t>(head), k = static_cast<size_t>(group.KvHead(head));
    AddSpectrum(group, "Q", layer, head, means.query.r1[q], means.query.rank[q], group.prompts, dominant,
                averages);
    AddSpectrum(group, "K", layer, head, means.key.r1[k], means.key.rank[k], group.prompts, dominant,
                averages);
    const int wq = static_cast<int>(q), wk = static_cast<int>(k);
    AddSpectrum(group, "W_Q", layer, head, weights.query_r1(wq), static_cast<double>(weights.query_rank(wq)),
                std::nullopt, dominant, averages);
    AddSpectrum(group, "W_K", layer, head, weights.key_r1(wk), static_cast<double>(weights.key_rank(wk)),
                std::nullopt, dominant, averages);
    AddNorm(group, "Q", layer, head, means.query.norm_rv[q], dominant, averages);
    AddNorm(group, "K", layer, head, means.key.norm_rv[k], dominant, averages);
  }

  void AddNorm(const RankGroup& group, const std::string& side, int64_t layer, int64_t head, double rv,
               bool dominant, RankAverages& averages) {
    Lead(norms_, group).Text(side).Integer(layer).Integer(head).Real(Finite(rv)).Boolean(dominant);
    averages.Add("norm_rv_" + side, Finite(rv), dominant);
  }

  // Layer 0 over the vocabulary.
  void AddSide(const RankGroup& group, const std::string& side, const v1::VocabularySide& vocabulary,
               RankAverages& averages) {
    const std::string matrix = "W_" + side;
    const RandomVariation random = VariationOf(vocabulary);
    for (int64_t head = 0; head < group.model->config.query_heads(); ++head) {
      const int at = static_cast<int>(side == "Q" ? head : group.KvHead(head));
      const bool dominant = group.Dominant(0, head);
      AddSpectrum(group, side + "_vocabulary", 0, head, vocabulary.r1(at),
                  static_cast<double>(vocabulary.rank(at)), std::nullopt, dominant, averages);
      const Value r1 = Finite(vocabulary.aligned_r1(at));
      const Value rank = RankOf(vocabulary.aligned_r1(at), vocabulary.aligned_rank(at));
      const Value rv = Finite(vocabulary.axis_rv(at)), mean_norm = Finite(vocabulary.mean_norm(at));
      const bool biased = vocabulary.bias_norm_size() > 0;
      const Value bias_norm = biased ? Finite(vocabulary.bias_norm(at)) : std::nullopt;
      const Value bias_ratio =
          biased ? Finite(vocabulary.bias_norm(at) / vocabulary.mean_norm(at)) : std::nullopt;
      Lead(alignment_, group).Text(matrix).Integer(0).Integer(head).Real(r1).Real(rank).Real(rv);
      alignment_.Real(random.median).Real(random.q1).Real(random.q3).Real(bias_ratio).Real(mean_norm);
      alignment_.Real(bias_norm).Boolean(dominant);
      averages.Add("aligned_r1_" + matrix, r1, dominant);
      averages.Add("aligned_rank_" + matrix, rank, dominant);
      averages.Add("rv_" + matrix, rv, dominant);
      averages.Add("norm_" + matrix, mean_norm, dominant);
      if (biased) {
        averages.Add("bias_norm_" + matrix, bias_norm, dominant);
      }
    }
  }

  void AddRandom(const RankGroup& group) {
    const RandomVariation random = VariationOf(*group.vocabulary_query);
    const std::string because =
        "the tokens' projections on a random vector have no variation: their mean is 0";
    AddRankStatistic(group, numerics_class_,
                     {"rv_random_median", random.median, random.q1, random.q3, random.n, because},
                     statistics_);
    AddRankStatistic(group, numerics_class_,
                     {"rv_random_mean", random.mean, std::nullopt, std::nullopt, random.n, because},
                     statistics_);
  }

  void AddCounts(const RankGroup& group) {
    const auto add = [&](const char* name, size_t value, int64_t n) {
      AddRankStatistic(group, numerics_class_,
                       {name, static_cast<double>(value), std::nullopt, std::nullopt, n, ""}, statistics_);
    };
    add("dominant_heads", group.dominant.size(),
        group.model->config.layers() * group.model->config.query_heads());
    if (group.choice.has_value()) {
      add("corpus_documents_read", static_cast<size_t>(group.choice->read), group.in_corpus);
      add("corpus_skipped", static_cast<size_t>(group.choice->skipped), group.choice->read);
    }
  }

  const std::string numerics_class_;
  TableBuilder spectra_, norms_, alignment_, statistics_;
};

}  // namespace

std::vector<Table> RankTables(const std::vector<RankGroup>& groups, const std::string& numerics_class) {
  Writer writer(numerics_class);
  bool vocabulary = false;
  for (const RankGroup& group : groups) {
    writer.Add(group);
    vocabulary = vocabulary || group.vocabulary_query.has_value();
  }
  std::vector<Table> tables = writer.Finish(vocabulary);
  if (vocabulary) {
    tables.push_back(CosineSeries(groups, numerics_class));
  }
  return tables;
}

}  // namespace ropelab::experiments
