#include "server/experiments/slash_tables.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_join.h"
#include "server/experiments/prompts.h"

namespace ropelab::experiments {
namespace {

constexpr int64_t kOffsetsWholeInSql = 64;

// Uniform attention's scores at the offsets asked for, per sliding window, averaged over the prompts.
std::map<int64_t, std::vector<double>> UniformByWindow(const v1::SlashDetection& detection,
                                                       const ModelFacts& model) {
  const PromptShape shape = ShapeOf(detection.prompts()).value_or(PromptShape());
  std::map<int64_t, int64_t> prompts_by_length;
  if (detection.prompts().has_token_ids()) {
    for (int64_t sample = 0; sample < shape.count; ++sample) {
      ++prompts_by_length[TokensOf(detection.prompts(), sample)];
    }
  } else {
    prompts_by_length[shape.longest] = shape.count;
  }
  const int64_t first = detection.offsets().first(), last = detection.offsets().last();
  std::map<int64_t, std::vector<double>> by_window;
  for (int64_t layer = 0; layer < model.config.layers(); ++layer) {
    const int64_t window = WindowOf(model, layer);
    if (by_window.count(window) > 0) {
      continue;
    }
    std::vector<double>& mean = by_window[window];
    mean.assign(static_cast<size_t>(last - first + 1), 0.0);
    for (const auto& [tokens, prompts] : prompts_by_length) {
      const std::vector<double> scores = UniformScores(detection, tokens, window, first, last);
      const double share = static_cast<double>(prompts) / static_cast<double>(shape.count);
      for (size_t i = 0; i < mean.size(); ++i) {
        mean[i] += share * scores[i];
      }
    }
  }
  return by_window;
}

TableBuilder ScoresTable() {
  return TableBuilder("slash_scores", WithLeadingColumns({{"seed", v1::Column::INTEGER, true},
                                                          {"rows", v1::Column::TEXT, true},
                                                          {"layer", v1::Column::INTEGER, true},
                                                          {"head", v1::Column::INTEGER, true},
                                                          {"offset", v1::Column::INTEGER, true},
                                                          {"score", v1::Column::REAL, false},
                                                          {"stderr", v1::Column::REAL, false},
                                                          {"uniform", v1::Column::REAL, false},
                                                          {"reachable", v1::Column::BOOLEAN, false},
                                                          {"prompts", v1::Column::INTEGER, false},
                                                          {"dominant", v1::Column::BOOLEAN, false}}));
}

TableBuilder HeadsTable() {
  return TableBuilder("slash_heads", WithLeadingColumns({{"seed", v1::Column::INTEGER, true},
                                                         {"layer", v1::Column::INTEGER, true},
                                                         {"head", v1::Column::INTEGER, true},
                                                         {"best_offset", v1::Column::INTEGER, false},
                                                         {"score", v1::Column::REAL, false},
                                                         {"stderr", v1::Column::REAL, false},
                                                         {"dominant_offsets", v1::Column::TEXT, false},
                                                         {"dominant", v1::Column::BOOLEAN, false}}));
}

}  // namespace

class SlashTables::Impl {
 public:
  Impl(const v1::SlashDetection& detection, const std::string& numerics_class)
      : detection_(detection),
        numerics_class_(numerics_class),
        rows_(v1::Rows::Value_Name(detection.rows())),
        whole_in_sql_(detection.all_offsets() ||
                      detection.offsets().last() - detection.offsets().first() < kOffsetsWholeInSql),
        scores_(ScoresTable()),
        heads_(HeadsTable()),
        statistics_(StatisticsTable()) {}

  void Add(const DetectionGroup& group) {
    const auto uniform = UniformByWindow(detection_, *group.model);
    int64_t dominant_heads = 0, heads = 0;
    for (int64_t layer = 0; layer < group.model->config.layers(); ++layer) {
      for (int64_t head = 0; head < group.model->config.query_heads(); ++head) {
        const HeadFinding finding = FindingOf(detection_, group.ranges.front(), layer, head);
        AddScores(group, uniform.at(WindowOf(*group.model, layer)), layer, head, finding);
        AddHead(group, layer, head, finding);
        dominant_heads += finding.dominant_offsets.empty() ? 0 : 1;
        ++heads;
      }
    }
    AddStatistic(group, "dominant_heads", detection_.threshold(), dominant_heads, heads);
    AddStatistic(group, "control_small_offsets", detection_.threshold(), SmallOffsetHeads(group), heads);
    if (group.choice) {
      AddStatistic(group, "corpus_documents_read", std::nullopt, group.choice->read, group.in_corpus);
      AddStatistic(group, "corpus_skipped", std::nullopt, group.choice->skipped, group.choice->read);
    }
  }

  Results Finish() {
    Results results;
    results.tables.push_back(heads_.Finish(true));
    results.tables.push_back(scores_.Finish(whole_in_sql_));
    results.tables.push_back(statistics_.Finish(true));
    return results;
  }

  TableBuilder& statistics() { return statistics_; }

 private:
  TableBuilder& Lead(TableBuilder& table, const DetectionGroup& group) {
    return table.Text(group.label).Text(group.dtype).Text(numerics_class_);
  }

  void AddScores(const DetectionGroup& group, const std::vector<double>& uniform, int64_t layer, int64_t head,
                 const HeadFinding& finding) {
    const SlashAccumulator& scores = group.ranges.front();
    const int64_t prompts = ShapeOf(detection_.prompts()).value_or(PromptShape()).count;
    const int64_t first = detection_.offsets().first();
    for (int64_t offset = first; offset <= detection_.offsets().last(); ++offset) {
      const bool reachable = scores.Reachable(layer, offset);
      const statistics::Moments& moments = scores.At(layer, head, offset);
      Lead(scores_, group).Integer(group.seed).Text(rows_).Integer(layer).Integer(head).Integer(offset);
      scores_.Real(reachable ? std::optional<double>(moments.mean) : std::nullopt);
      scores_.Real(reachable ? statistics::StandardError(moments) : std::nullopt);
      scores_.Real(reachable && KnowsTokens(detection_.prompts())
                       ? std::optional<double>(uniform[static_cast<size_t>(offset - first)])
                       : std::nullopt);
      scores_.Boolean(reachable);
      scores_.Integer(prompts);
      scores_.Boolean(reachable && moments.mean >= detection_.threshold());
      if (finding.best_offset == offset || (reachable && moments.mean >= detection_.threshold() / 2)) {
        scores_.KeepLastRowInSql();
      }
    }
  }

  void AddHead(const DetectionGroup& group, int64_t layer, int64_t head, const HeadFinding& finding) {
    Lead(heads_, group).Integer(group.seed).Integer(layer).Integer(head).Integer(finding.best_offset);
    if (finding.best_offset) {
      const statistics::Moments& best = group.ranges.front().At(layer, head, *finding.best_offset);
      heads_.Real(best.mean).Real(statistics::StandardError(best));
    } else {
      heads_.Real(std::nullopt).Real(std::nullopt);
    }
    heads_.Text(absl::StrJoin(finding.dominant_offsets, " ")).Boolean(!finding.dominant_offsets.empty());
  }

  // Heads that pass the threshold at an offset below kSmallOffsets: section 6's control.
  int64_t SmallOffsetHeads(const DetectionGroup& group) const {
    const SlashAccumulator& scores = group.ranges.back();
    const int64_t last = std::min(kSmallOffsets - 1, scores.range().last);
    int64_t passing = 0;
    for (int64_t layer = 0; layer < group.model->config.layers(); ++layer) {
      for (int64_t head = 0; head < group.model->config.query_heads(); ++head) {
        bool passes = false;
        for (int64_t offset = 0; offset <= last && scores.Reachable(layer, offset); ++offset) {
          passes = passes || scores.At(layer, head, offset).mean >= detection_.threshold();
        }
        passing += passes ? 1 : 0;
      }
    }
    return passing;
  }

  void AddStatistic(const DetectionGroup& group, const char* name, std::optional<double> threshold,
                    int64_t value, int64_t n) {
    Lead(statistics_, group).Text(name).Text(std::nullopt).Text(std::nullopt);
    statistics_.Real(threshold).Integer(group.seed).Real(static_cast<double>(value));
    statistics_.Real(std::nullopt).Real(std::nullopt).Real(std::nullopt).Integer(n).Text(std::nullopt);
  }

  const v1::SlashDetection& detection_;
  const std::string numerics_class_;
  const std::string rows_;
  const bool whole_in_sql_;
  TableBuilder scores_, heads_, statistics_;
};

SlashTables::SlashTables(const v1::SlashDetection& detection, const std::string& numerics_class)
    : impl_(std::make_unique<Impl>(detection, numerics_class)) {}

SlashTables::~SlashTables() = default;

void SlashTables::Add(const DetectionGroup& group) {
  impl_->Add(group);
}

TableBuilder& SlashTables::statistics() {
  return impl_->statistics();
}

Results SlashTables::Finish() {
  return impl_->Finish();
}

void SortGroups(std::vector<DetectionGroup>& groups) {
  std::sort(groups.begin(), groups.end(), [](const DetectionGroup& a, const DetectionGroup& b) {
    return std::tie(a.label, a.dtype, a.seed) < std::tie(b.label, b.dtype, b.seed);
  });
}

}  // namespace ropelab::experiments
