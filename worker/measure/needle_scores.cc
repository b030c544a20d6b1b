#include "worker/measure/needle_scores.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/engine/decoder.h"
#include "worker/engine/row_watch.h"

namespace ropelab::measure {
namespace {

using engine::WatchedRow;

// Of positions [first, last], in ascending order.
double MassOn(const WatchedRow& row, int64_t first, int64_t last) {
  const int64_t end = std::min(last - row.first_key + 1, static_cast<int64_t>(row.probabilities.size()));
  double sum = 0;
  for (int64_t key = std::max<int64_t>(first - row.first_key, 0); key < end; ++key) {
    sum += row.probabilities[static_cast<size_t>(key)];
  }
  return sum;
}

// The position of the largest probability, the first of a tie.
int64_t LargestOf(const WatchedRow& row) {
  const auto largest = std::max_element(row.probabilities.begin(), row.probabilities.end());
  return row.first_key + (largest - row.probabilities.begin());
}

// One number per layer, head and row, so that threads never write to one place and means are taken in the
// rows' order.
class RowNumbers {
 public:
  RowNumbers(const formats::ModelConfig& config, bool wanted, int64_t rows)
      : heads_(config.query_heads), rows_(rows) {
    if (wanted) numbers_.resize(static_cast<size_t>(config.layers * heads_ * rows));
  }
  bool wanted() const { return !numbers_.empty(); }
  void Set(const WatchedRow& row, int64_t place, double number) {
    if (wanted()) numbers_[static_cast<size_t>((row.layer * heads_ + row.head) * rows_ + place)] = number;
  }
  // Adds the means over each head's rows.
  void AddMeans(google::protobuf::RepeatedField<double>* to) const {
    for (size_t first = 0; first < numbers_.size(); first += static_cast<size_t>(rows_)) {
      double sum = 0;
      for (int64_t row = 0; row < rows_; ++row) sum += numbers_[first + static_cast<size_t>(row)];
      to->Add(sum / static_cast<double>(rows_));
    }
  }

 private:
  const int64_t heads_, rows_;
  std::vector<double> numbers_;
};

// Reads the watched rows: the prompt's last, then the answer's. Row r from 1 on is that of answer token r - 1
// and predicts answer token r; row 0 predicts token 0.
class Scores {
 public:
  Scores(const formats::ModelConfig& config, const v1::RealisedNeedle& facts, const ForcedAnswer& forced,
         const NeedleMetrics& metrics)
      : needle_(facts.needle()),
        span_(metrics.span == v1::Span::CODE ? facts.code() : facts.needle()),
        occurrences_(forced.occurrences),
        answer_(metrics.copies() ? static_cast<int64_t>(forced.ids.size()) - forced.first : 0),
        argmax_(config, metrics.argmax, 1),
        mass_(config, metrics.mass, 1),
        copy_paper_(config, metrics.copy_paper, answer_),
        per_token_(config, metrics.copy_paper_per_token, answer_),
        copy_wu_(config, metrics.copy_wu, answer_) {}

  void Read(const WatchedRow& row) {
    const auto place = static_cast<int64_t>(row.place);
    const bool largest_wanted = (place == 0 && argmax_.wanted()) || (place < answer_ && copy_wu_.wanted());
    const int64_t largest = largest_wanted ? LargestOf(row) : -1;
    if (place == 0) {
      argmax_.Set(row, 0, largest >= span_.first() && largest <= span_.last() ? 1 : 0);
      mass_.Set(row, 0, MassOn(row, span_.first(), span_.last()));
    } else {
      const int64_t same = occurrences_[static_cast<size_t>(place - 1)];
      copy_paper_.Set(row, place - 1, MassOn(row, needle_.first(), needle_.last()));
      per_token_.Set(row, place - 1, same < 0 ? 0 : MassOn(row, same, same));
    }
    if (place < answer_) {
      const int64_t same = occurrences_[static_cast<size_t>(place)];
      copy_wu_.Set(row, place, same >= 0 && largest == same ? 1 : 0);
    }
  }

  void Say(v1::NeedleHeads& heads) const {
    argmax_.AddMeans(heads.mutable_argmax());
    mass_.AddMeans(heads.mutable_mass());
    copy_paper_.AddMeans(heads.mutable_copy_paper());
    per_token_.AddMeans(heads.mutable_copy_paper_per_token());
    copy_wu_.AddMeans(heads.mutable_copy_wu());
  }

  int64_t answer() const { return answer_; }

 private:
  const v1::TokenSpan& needle_;
  const v1::TokenSpan& span_;
  const std::vector<int64_t>& occurrences_;
  const int64_t answer_;  // tokens; 0: no copy metric
  RowNumbers argmax_, mass_, copy_paper_, per_token_, copy_wu_;
};

absl::Status CheckPlaces(const RealisedNeedle& needle, const ForcedAnswer& forced, bool copies) {
  const auto tokens = static_cast<int64_t>(needle.ids.size());
  const auto outside = [tokens](const v1::TokenSpan& span) {
    return span.first() < 0 || span.last() < span.first() || span.last() >= tokens;
  };
  std::string wrong;
  if (outside(needle.facts.needle())) wrong = "the needle's span";
  if (outside(needle.facts.code())) wrong = "the code's span";
  const auto answer = static_cast<int64_t>(forced.ids.size()) - tokens;
  if (copies &&
      (forced.first != tokens || answer < 1 || static_cast<int64_t>(forced.occurrences.size()) != answer)) {
    wrong = "the answer";
  }
  for (const int64_t place : forced.occurrences) {
    if (copies && (place < -1 || place >= tokens)) wrong = "an occurrence of an answer's token";
  }
  if (wrong.empty()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(wrong, " does not lie in the prompt of ", tokens, " tokens"));
}

}  // namespace

absl::StatusOr<NeedleMetrics> ReadNeedleMetrics(const v1::NeedleAttention& request) {
  NeedleMetrics metrics;
  metrics.span = request.span();
  int before = v1::Metric::UNSPECIFIED;
  for (const int metric : request.metrics()) {
    if (!v1::Metric::Value_IsValid(metric) || metric == v1::Metric::UNSPECIFIED) {
      return absl::InvalidArgumentError(
          absl::StrCat("needle_attention.metrics holds ", metric, ", which is no metric known here"));
    }
    if (metric <= before) {
      return absl::InvalidArgumentError(absl::StrCat(
          "needle_attention.metrics: ", v1::Metric::Value_Name(static_cast<v1::Metric::Value>(metric)),
          " is out of place; name each metric once, in the order of their numbers"));
    }
    before = metric;
    metrics.argmax |= metric == v1::Metric::ARGMAX;
    metrics.mass |= metric == v1::Metric::MASS;
    metrics.copy_paper |= metric == v1::Metric::COPY_PAPER;
    metrics.copy_paper_per_token |= metric == v1::Metric::COPY_PAPER_PER_TOKEN;
    metrics.copy_wu |= metric == v1::Metric::COPY_WU;
  }
  if (request.metrics().empty()) {
    return absl::InvalidArgumentError("needle_attention.metrics is empty; name at least one metric");
  }
  if (metrics.last_row() && metrics.span != v1::Span::NEEDLE && metrics.span != v1::Span::CODE) {
    return absl::InvalidArgumentError(
        "needle_attention.span is not given; ARGMAX and MASS are taken on NEEDLE or CODE");
  }
  return metrics;
}

absl::StatusOr<v1::NeedleHeads> ScoreNeedle(const model::LoadedModel& model, const RealisedNeedle& needle,
                                            const ForcedAnswer& forced, const NeedleMetrics& metrics,
                                            absl::FunctionRef<absl::Status()> progress) {
  ROPELAB_RETURN_IF_ERROR(CheckPlaces(needle, forced, metrics.copies()));
  Scores scores(model.config, needle.facts, forced, metrics);
  std::vector<int64_t> rows = {static_cast<int64_t>(needle.ids.size()) - 1};
  for (int64_t token = 0; token < scores.answer(); ++token) rows.push_back(rows[0] + 1 + token);
  engine::RowWatch watch(
      std::move(rows), [&scores](const WatchedRow& row) { scores.Read(row); },
      [progress] { return progress(); });
  engine::ForwardOptions options;
  options.outputs = false;  // of the last layer: only its probabilities are read
  ROPELAB_RETURN_IF_ERROR(engine::Forward(model, forced.ids, options, watch).status());
  v1::NeedleHeads heads;
  *heads.mutable_realised() = needle.facts;
  scores.Say(heads);
  return heads;
}

int64_t ScoreNeedleBytes(const model::LoadedModel& model, int64_t tokens, int64_t answer, int threads) {
  const int64_t numbers = model.config.layers * model.config.query_heads * (2 + 3 * answer);
  return engine::ForwardBytes(model, tokens, 0, threads) + numbers * static_cast<int64_t>(sizeof(double));
}

}  // namespace ropelab::measure
