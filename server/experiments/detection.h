// The detection of retrieval heads on one model, at one dtype, with one seed: its rules, its tasks, its
// scores, its labels and its table. EXPERIMENTS.md section 7; docs/experiments/retrieval_detection.md. The
// kinds retrieval_detection, checkpoint_sweep and precision_test are made of it.
//
// How they use it: ResolveDetection at submit; FindNeedles (needles.h) with use DETECTION for the prompts,
// then a DetectionTask per model and block; on reading a DetectionScores per place, Add in plan order;
// HeadScoresTable for the table head_scores, Figures and RetrievalLabels (retrieval_labels.h) for the rest.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/experiments/experiment.h"
#include "server/experiments/retrieval_labels.h"
#include "server/experiments/table_builder.h"

namespace ropelab::experiments {

struct NeedleDefaults;  // needles.h

// Writes the defaults of a detection (metrics ARGMAX and MASS, span NEEDLE, threshold 0.1, the needles' as
// given) and adds what is wrong; paths start with `path`. Metrics come out ascending. MASS is always among
// them: it breaks ties, and costs nothing beside ARGMAX. A copy metric without ARGMAX is refused, since the
// argmax set says how many heads it labels.
void ResolveDetection(v1::RetrievalDetection& detection, const std::string& path,
                      const NeedleDefaults& needles, const v1::ExperimentSpec& spec, const Facts& facts,
                      Problems& problems);

// Adds what makes a resolved detection on all models and seeds, at each of `dtypes`, too large: rows of its
// table, or tasks.
void CheckDetectionSizes(const v1::RetrievalDetection& detection, const std::string& path, int64_t dtypes,
                         const v1::ExperimentSpec& spec, const Facts& facts, Problems& problems);

// Adds the tasks and bytes of a detection on one model to an estimate; returns its operations.
double AddDetectionCost(const v1::RetrievalDetection& detection, int64_t seeds, const ModelFacts& model,
                        v1::Estimate& estimate);

// The task that measures a block of needle prompts. `model`: the announced name.
PlannedTask DetectionTask(const v1::RetrievalDetection& detection, const v1::ModelIdentity& identity,
                          const std::string& model, v1::PromptBlock prompts);

// Some samples together: all of them (both empty), those of a context length, of a depth, or of both.
struct DetectionCell {
  std::optional<int64_t> context_length;
  std::optional<double> depth;
  int64_t samples = 0;

  bool pooled() const { return !context_length.has_value() && !depth.has_value(); }
  bool whole() const { return context_length.has_value() && depth.has_value(); }
};

// Sums of the readings, in double, in the order they are added. Not for several threads at once.
class DetectionScores {
 public:
  // `detection` is resolved. Cells stand as its needles name lengths and depths: all samples first, then per
  // length, per depth, and per length and depth.
  DetectionScores(const v1::RetrievalDetection& detection, const v1::ModelConfig& config);

  // One sample. INTERNAL: the reading is none of the task's samples, its cell is none of the detection's, it
  // has not one value per head, or the sample does not fit its context length (the planner dropped those).
  // DATA_LOSS: a value is not finite.
  absl::Status Add(const v1::Measurement& measurement, const v1::Reading& reading);

  const std::vector<v1::Metric::Value>& metrics() const { return metrics_; }
  bool Measured(v1::Metric::Value metric) const { return sums_.count(metric) > 0; }
  int64_t layers() const { return layers_; }
  int64_t heads() const { return heads_; }  // query heads a layer
  // cells()[0] holds all samples.
  const std::vector<DetectionCell>& cells() const { return cells_; }

  // One entry per head, by layer, then head. Scores are 0 in a cell without samples.
  std::vector<HeadFigures> Figures(v1::Metric::Value metric, size_t cell = 0) const;
  // RetrievalLabels of these figures.
  std::vector<bool> Labels(v1::Metric::Value metric, double threshold, size_t cell = 0) const;

 private:
  std::vector<v1::Metric::Value> metrics_;
  int64_t layers_, heads_;
  std::vector<DetectionCell> cells_;
  std::map<v1::Metric::Value, std::vector<std::vector<double>>> sums_;  // [cell][layer * heads + head]
};

// Of which model, at which dtype, at which checkpoint and with which seed scores are.
struct DetectionPlace {
  std::string label;  // of the model, as the resolved spec has it
  v1::Dtype::Value dtype = v1::Dtype::UNSPECIFIED;
  std::optional<std::string> checkpoint;
  uint64_t seed = 0;
};

// The table head_scores: per metric and head a row of all samples (context_length and depth empty; hits of
// ARGMAX alone; threshold and retrieval filled), and one per context length and depth that has samples
// (threshold and retrieval empty). SQL holds the rows of all samples, and the others where they are not too
// many.
class HeadScoresTable {
 public:
  explicit HeadScoresTable(std::string numerics_class);
  void Add(const DetectionPlace& place, const DetectionScores& scores, double threshold);
  Table Finish();

 private:
  const std::string numerics_class_;
  TableBuilder table_;
};

// The rows of all samples of a table head_scores for a model's label, seed and metric: one entry per head, by
// layer, then head, hits and mass joined from the rows of ARGMAX and MASS where the table has them. Empty
// where it has no such row. INTERNAL: a column is missing.
absl::StatusOr<std::vector<HeadFigures>> ReadHeadFigures(const v1::TableSlice& head_scores,
                                                         const std::string& label, int64_t seed,
                                                         v1::Metric::Value metric);

}  // namespace ropelab::experiments
