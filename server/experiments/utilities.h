// The utility of query dimensions: the L1 norms of the rows of the query projections, as a worker measures
// them on a model without any prompt. EXPERIMENTS.md section 8.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/experiments/experiment.h"

namespace ropelab::experiments {

// What a task asks for. `fold_norm`: with the weight of the norm before attention multiplied in.
v1::Measurement UtilityMeasurement(const v1::ModelIdentity& model, bool fold_norm);
// The task that measures one model, in the dtype that the spec says. FAILED_PRECONDITION while the model's
// weights hash is not known.
absl::StatusOr<PlannedTask> UtilityTask(const v1::ExperimentSpec& spec, const ModelFacts& model,
                                        bool fold_norm);
// One task per model of the context, in their order.
absl::StatusOr<StagePlan> UtilityTasks(const v1::ExperimentSpec& spec, const Context& context,
                                       bool fold_norm);

// The utilities of one model, in double.
class Utilities {
 public:
  Utilities() = default;
  Utilities(int64_t layers, int64_t heads, int64_t head_dim);

  int64_t layers() const { return layers_; }
  int64_t heads() const { return heads_; }  // query heads per layer
  int64_t head_dim() const { return head_dim_; }

  double OfDim(int64_t layer, int64_t head, int64_t dim) const;  // dim: storage index, from 0
  double OfHead(int64_t layer, int64_t head) const;              // the mean over its dimensions
  double OfModel() const;                                        // the mean over all heads
  std::vector<double> MeanPerDim() const;                        // over all heads; head_dim values

  // The `count` dimensions of a head with the lowest (or highest) utility, ascending by index; of equal ones
  // the lower index goes first. 0 <= count <= head_dim.
  std::vector<int32_t> LowestDims(int64_t layer, int64_t head, int64_t count) const;
  std::vector<int32_t> HighestDims(int64_t layer, int64_t head, int64_t count) const;

  // Layers come in order. INTERNAL: another layer is due, the shape is another, or a norm is negative or not
  // finite.
  absl::Status Add(const v1::QueryRowNorms& norms);
  bool complete() const { return added_ == layers_; }

 private:
  std::vector<int32_t> Chosen(int64_t layer, int64_t head, int64_t count, bool highest) const;

  int64_t layers_ = 0, heads_ = 0, head_dim_ = 0, added_ = 0;
  std::vector<double> dims_;  // [layer, head, dim]
};

// Of a stage that UtilityTasks planned, or whose tasks `first` to `first` + models - 1 it planned: one per
// model of the context, in their order. INTERNAL: a task gave another reading, or not every layer.
absl::StatusOr<std::vector<Utilities>> ReadUtilities(const Context& context, int64_t stage,
                                                     StageReadings& readings, int64_t first = 0);

}  // namespace ropelab::experiments
