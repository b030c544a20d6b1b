#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/experiments/head_set.h"
#include "server/experiments/prompts.h"
#include "server/experiments/slash_detection.h"
#include "server/statistics/uniform_attention.h"

namespace ropelab::experiments {
namespace {

constexpr char kPath[] = "slash_detection";
constexpr int64_t kDefaultSkipFirst = 4;
constexpr double kSmallThreshold = 0.1;
constexpr int64_t kSmallLast = 4;
constexpr int64_t kMostRows = int64_t{1} << 24;  // of the table slash_scores
constexpr int64_t kMostTasks = 1000000;
constexpr int64_t kDefaultMapSize = 256;
constexpr int64_t kLargestMap = 4096;

std::string At(const char* field) {
  return absl::StrCat(kPath, ".", field);
}

// Which regime's defaults hold: the one said, else the one that the first offset lies in.
v1::Regime::Value RegimeOf(const v1::SlashDetection& detection) {
  if (detection.has_regime()) {
    return detection.regime();
  }
  const bool far = detection.offsets().has_first() && detection.offsets().first() >= kSmallOffsets;
  return far ? v1::Regime::LARGE : v1::Regime::SMALL;
}

// Offsets and threshold of the regime where they are left out. The large regime's belong to N = 6000 tokens
// (500 to 5000, 1e-3) and scale with N. What remains says all, so the regime itself leaves the resolved spec.
void ResolveRegime(v1::SlashDetection& detection, const PromptShape& shape, Problems& problems) {
  const bool large = RegimeOf(detection) == v1::Regime::LARGE;
  const bool one_length = shape.shortest == shape.longest;
  const bool complete =
      detection.offsets().has_first() && detection.offsets().has_last() && detection.has_threshold();
  if (large && !one_length && (detection.has_regime() || !complete)) {
    const std::string remedy =
        absl::StrCat("the large regime scales with the prompts' length, and these have ", shape.shortest,
                     " to ", shape.longest, " tokens; ");
    if (detection.has_regime()) {
      problems.Add(At("regime"), "LARGE",
                   remedy + "give prompts of one length, or offsets and threshold instead");
    } else {
      problems.Add(At("threshold"), "", remedy + "give offsets.first, offsets.last and threshold");
    }
    return;
  }
  const int64_t n = shape.longest;
  v1::OffsetRange& offsets = *detection.mutable_offsets();
  if (!offsets.has_first()) {
    offsets.set_first(large ? (n + 11) / 12 : 0);
  }
  if (!offsets.has_last()) {
    offsets.set_last(large ? 5 * n / 6 : kSmallLast);
  }
  if (!detection.has_threshold()) {
    detection.set_threshold(large ? 6.0 / static_cast<double>(n) : kSmallThreshold);
  }
  detection.clear_regime();
}

// `typed`: whether a person wrote the last offset.
void CheckOffsets(const v1::SlashDetection& detection, const PromptShape& shape, bool typed,
                  Problems& problems) {
  const v1::OffsetRange& offsets = detection.offsets();
  const int64_t reach = shape.shortest - detection.skip_first() - 1;
  if (reach < 0) {
    problems.Add(At("skip_first"), absl::StrCat(detection.skip_first()),
                 absl::StrCat("leaves nothing of a prompt of ", shape.shortest, " tokens; at most ",
                              shape.shortest - 1));
    return;
  }
  if (offsets.first() < 0 || offsets.first() > offsets.last()) {
    problems.Add(At("offsets.first"), absl::StrCat(offsets.first()),
                 absl::StrCat("must be 0 to the last offset, ", offsets.last()));
  }
  if (offsets.last() > reach) {
    problems.Add(At("offsets.last"), absl::StrCat(offsets.last(), typed ? "" : " (the default)"),
                 absl::StrCat("at most ", reach, ": a prompt of ", shape.shortest,
                              " tokens has no entry further back once the first ", detection.skip_first(),
                              " positions are left out"));
  }
}

void CheckSizes(const v1::ExperimentSpec& spec, const PromptShape& shape,
                const std::vector<ModelFacts>& models, Problems& problems) {
  const v1::SlashDetection& detection = spec.slash_detection();
  const int64_t offsets = detection.offsets().last() - detection.offsets().first() + 1;
  int64_t heads = 0;
  for (const ModelFacts& model : models) {
    heads += model.config.layers() * model.config.query_heads();
  }
  const int64_t per_offset = heads * spec.seeds_size();
  if (offsets > 0 && per_offset > kMostRows / offsets) {
    problems.Add(At("offsets"), absl::StrCat(offsets, " offsets"),
                 absl::StrCat("give more than ", kMostRows, " scores over ", per_offset,
                              " heads of all models and seeds; split the range, the seeds or the models"));
  }
  const int64_t tasks = BlockCount(shape.count) * spec.seeds_size() * static_cast<int64_t>(models.size()) *
                        static_cast<int64_t>(MeasuredRanges(detection).size());
  if (tasks > kMostTasks) {
    problems.Add(
        At("prompts"), absl::StrCat(shape.count, " prompts"),
        absl::StrCat("make ", tasks, " tasks; at most ", kMostTasks, ": fewer prompts, seeds or models"));
  }
}

// A threshold below twice the score of uniform attention finds heads that attend to nothing in particular.
void WarnOfUniform(const v1::SlashDetection& detection, const PromptShape& shape, const ModelFacts& model,
                   Problems& problems) {
  const int64_t first = detection.offsets().first();
  std::set<int64_t> windows;
  for (int64_t layer = 0; layer < model.config.layers(); ++layer) {
    windows.insert(WindowOf(model, layer));
  }
  double largest = 0;
  int64_t at = 0;
  for (const int64_t window : windows) {
    const std::vector<double> scores =
        UniformScores(detection, shape.shortest, window, first, detection.offsets().last());
    for (size_t i = 0; i < scores.size(); ++i) {
      const int64_t offset = first + static_cast<int64_t>(i);
      const bool reachable = window == 0 || offset < window;
      if (reachable && scores[i] > largest) {
        largest = scores[i];
        at = offset;
      }
    }
  }
  if (detection.threshold() < 2 * largest) {
    problems.Warn(
        absl::StrFormat("slash_detection.threshold %g is below twice the score of uniform attention on model "
                        "%s: %g at offset %d in a "
                        "prompt of %d tokens; heads that attend to nothing in particular may pass",
                        detection.threshold(), model.name, largest, at, shape.shortest));
  }
}

void ResolveChoices(v1::SlashDetection& detection, Problems& problems) {
  if (!detection.has_skip_first()) {
    detection.set_skip_first(kDefaultSkipFirst);
  } else if (detection.skip_first() < 0) {
    problems.Add(At("skip_first"), absl::StrCat(detection.skip_first()),
                 "must be a number of positions, 0 or more");
  }
  if (!detection.has_rows()) {
    detection.set_rows(v1::Rows::ALL);
  }
  if (!detection.has_denominator()) {
    detection.set_denominator(v1::Denominator::KEPT);
  } else if (detection.denominator() == v1::Denominator::DEFINITION && detection.rows() == v1::Rows::COMMON) {
    problems.Add(
        At("denominator"), "DEFINITION",
        "divides by the whole sub-diagonal, which rows: COMMON does not run over; use KEPT, or rows: ALL");
  }
  if (!detection.has_all_offsets()) {
    detection.set_all_offsets(false);
  }
}

void ResolveMaps(v1::SlashDetection& detection, const std::optional<PromptShape>& shape, const Facts& facts,
                 Problems& problems) {
  if (!detection.has_maps()) {
    return;
  }
  v1::AverageMaps& maps = *detection.mutable_maps();
  if (!maps.has_size()) {
    maps.set_size(kDefaultMapSize);
  } else if (maps.size() < 1 || maps.size() > kLargestMap) {
    problems.Add(At("maps.size"), absl::StrCat(maps.size()),
                 absl::StrCat("a map has 1 to ", kLargestMap, " cells a side"));
  }
  ResolveHeadSet(maps.heads(), At("maps.heads"), facts, problems);
  if (maps.heads().list().head_size() > kMostMappedHeads) {
    problems.Add(At("maps.heads.list"), absl::StrCat(maps.heads().list().head_size(), " heads"),
                 absl::StrCat("are too many maps for one experiment; at most ", kMostMappedHeads));
  }
  if (shape.has_value() && shape->shortest != shape->longest) {
    problems.Add(
        At("maps"), "",
        absl::StrCat("a mean map needs prompts of one length, and these have ", shape->shortest, " to ",
                     shape->longest, " tokens; leave maps out, or give prompts of one length"));
  }
}

}  // namespace

void SlashDetectionExperiment::Resolve(v1::ExperimentSpec& spec, const Facts& facts,
                                       Problems& problems) const {
  v1::SlashDetection& detection = *spec.mutable_slash_detection();
  ResolvePrompts(*detection.mutable_prompts(), At("prompts"), spec, facts, problems);
  ResolveChoices(detection, problems);
  const std::optional<PromptShape> shape = ShapeOf(detection.prompts());
  ResolveMaps(detection, shape, facts, problems);
  if (shape.has_value() && detection.skip_first() >= 0) {
    const bool typed = detection.offsets().has_last();
    ResolveRegime(detection, *shape, problems);
    if (detection.offsets().has_first() && detection.offsets().has_last()) {
      CheckOffsets(detection, *shape, typed, problems);
    }
  }
  if (detection.has_threshold() && !(detection.threshold() > 0 && detection.threshold() <= 1)) {
    problems.Add(At("threshold"), absl::StrCat(detection.threshold()),
                 "a mean attention is above 0 and at most 1, and so is its threshold");
  }
  if (!problems.empty()) {
    return;
  }
  CheckSizes(spec, *shape, facts.models, problems);
  if (problems.empty()) {
    for (const ModelFacts& model : facts.models) {
      WarnOfUniform(detection, *shape, model, problems);
    }
  }
}

std::vector<MeasuredRange> MeasuredRanges(const v1::SlashDetection& detection) {
  const MeasuredRange asked = {detection.offsets().first(), detection.offsets().last(), detection.rows()};
  const PromptShape shape = ShapeOf(detection.prompts()).value_or(PromptShape());
  const int64_t small_last = std::min(kSmallOffsets - 1, shape.shortest - detection.skip_first() - 1);
  if (asked.first == 0 && asked.last >= small_last) {
    return {asked};
  }
  if (asked.rows == v1::Rows::ALL && asked.first <= kSmallOffsets) {
    return {{0, std::max(asked.last, small_last), v1::Rows::ALL}};
  }
  return {asked, {0, small_last, v1::Rows::ALL}};
}

int64_t WindowOf(const ModelFacts& model, int64_t layer) {
  return layer < model.config.sliding_window_size() ? model.config.sliding_window(static_cast<int>(layer))
                                                    : 0;
}

std::vector<double> UniformScores(const v1::SlashDetection& detection, int64_t tokens, int64_t window,
                                  int64_t first, int64_t last) {
  const statistics::UniformAttention uniform(tokens, window);
  const int64_t skip = detection.skip_first();
  std::vector<double> scores;
  for (int64_t offset = first; offset <= last; ++offset) {
    const int64_t first_row =
        (detection.rows() == v1::Rows::COMMON ? detection.offsets().last() : offset) + skip;
    const int64_t kept = tokens - first_row;
    const int64_t entries = detection.denominator() == v1::Denominator::DEFINITION ? tokens - offset : kept;
    scores.push_back(kept > 0 ? uniform.SumFrom(first_row) / static_cast<double>(entries) : 0.0);
  }
  return scores;
}

}  // namespace ropelab::experiments
