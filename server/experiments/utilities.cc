#include "server/experiments/utilities.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/experiments/model_names.h"

namespace ropelab::experiments {

v1::Measurement UtilityMeasurement(const v1::ModelIdentity& model, bool fold_norm) {
  v1::Measurement measurement;
  *measurement.mutable_model() = model;
  measurement.mutable_weight_profile()->mutable_query_rows()->set_fold_norm(fold_norm);
  return measurement;
}

absl::StatusOr<PlannedTask> UtilityTask(const v1::ExperimentSpec& spec, const ModelFacts& model,
                                        bool fold_norm) {
  ROPELAB_ASSIGN_OR_RETURN(const v1::ModelIdentity identity, IdentityOf(spec, model));
  return PlannedTask{UtilityMeasurement(identity, fold_norm), model.name};
}

absl::StatusOr<StagePlan> UtilityTasks(const v1::ExperimentSpec& spec, const Context& context,
                                       bool fold_norm) {
  StagePlan plan;
  for (const ModelFacts& model : context.models) {
    ROPELAB_ASSIGN_OR_RETURN(PlannedTask task, UtilityTask(spec, model, fold_norm));
    plan.push_back(std::move(task));
  }
  return plan;
}

Utilities::Utilities(int64_t layers, int64_t heads, int64_t head_dim)
    : layers_(layers), heads_(heads), head_dim_(head_dim) {
  dims_.reserve(static_cast<size_t>(layers * heads * head_dim));
}

double Utilities::OfDim(int64_t layer, int64_t head, int64_t dim) const {
  return dims_[static_cast<size_t>((layer * heads_ + head) * head_dim_ + dim)];
}

double Utilities::OfHead(int64_t layer, int64_t head) const {
  double sum = 0;
  for (int64_t dim = 0; dim < head_dim_; ++dim) {
    sum += OfDim(layer, head, dim);
  }
  return sum / static_cast<double>(head_dim_);
}

double Utilities::OfModel() const {
  double sum = 0;
  for (int64_t layer = 0; layer < layers_; ++layer) {
    for (int64_t head = 0; head < heads_; ++head) {
      sum += OfHead(layer, head);
    }
  }
  return sum / static_cast<double>(layers_ * heads_);
}

std::vector<double> Utilities::MeanPerDim() const {
  std::vector<double> means(static_cast<size_t>(head_dim_), 0.0);
  for (size_t i = 0; i < dims_.size(); ++i) {
    means[i % means.size()] += dims_[i];
  }
  for (double& mean : means) {
    mean /= static_cast<double>(layers_ * heads_);
  }
  return means;
}

std::vector<int32_t> Utilities::LowestDims(int64_t layer, int64_t head, int64_t count) const {
  return Chosen(layer, head, count, /*highest=*/false);
}

std::vector<int32_t> Utilities::HighestDims(int64_t layer, int64_t head, int64_t count) const {
  return Chosen(layer, head, count, /*highest=*/true);
}

std::vector<int32_t> Utilities::Chosen(int64_t layer, int64_t head, int64_t count, bool highest) const {
  std::vector<int32_t> dims(static_cast<size_t>(head_dim_));
  std::iota(dims.begin(), dims.end(), 0);
  std::stable_sort(dims.begin(), dims.end(), [&](int32_t a, int32_t b) {
    const double u = OfDim(layer, head, a), v = OfDim(layer, head, b);
    return highest ? u > v : u < v;
  });
  dims.resize(static_cast<size_t>(count));
  std::sort(dims.begin(), dims.end());
  return dims;
}

absl::Status Utilities::Add(const v1::QueryRowNorms& norms) {
  if (norms.layer() != added_ || added_ == layers_) {
    return absl::InternalError(absl::StrCat("query row norms of layer ", norms.layer(), " were given where ",
                                            added_ == layers_ ? "none" : absl::StrCat("layer ", added_),
                                            " is due"));
  }
  if (norms.heads() != heads_ || norms.head_dim() != head_dim_ || norms.norm_size() != heads_ * head_dim_) {
    return absl::InternalError(absl::StrCat(
        "query row norms of layer ", norms.layer(), " are ", norms.norm_size(), " of ", norms.heads(),
        " heads x ", norms.head_dim(), ", where ", heads_, " x ", head_dim_, " are due"));
  }
  for (int i = 0; i < norms.norm_size(); ++i) {
    const double norm = norms.norm(i);
    if (!(std::isfinite(norm) && norm >= 0)) {
      return absl::InternalError(absl::StrCat("layer ", norms.layer(), ": row ", i,
                                              " of the query projection has the L1 norm ", norm,
                                              "; is a weight not finite?"));
    }
    dims_.push_back(norm);
  }
  ++added_;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Utilities>> ReadUtilities(const Context& context, int64_t stage,
                                                     StageReadings& readings, int64_t first) {
  std::vector<Utilities> all;
  for (const ModelFacts& model : context.models) {
    all.emplace_back(model.config.layers(), model.config.query_heads(), model.config.head_dim());
  }
  ROPELAB_RETURN_IF_ERROR(readings.ForEach(stage, [&](int64_t task, const v1::Measurement& /*measurement*/,
                                                      const v1::Reading& reading) {
    const int64_t model = task - first;
    if (model < 0 || model >= static_cast<int64_t>(all.size())) {
      return absl::OkStatus();
    }
    if (!reading.has_query_row_norms()) {
      return absl::InternalError(absl::StrCat("task ", task, " gave a reading that is no query row norms"));
    }
    return all[static_cast<size_t>(model)].Add(reading.query_row_norms());
  }));
  for (size_t model = 0; model < all.size(); ++model) {
    if (!all[model].complete()) {
      return absl::InternalError(absl::StrCat("the query rows of model ", context.models[model].name,
                                              " were not given for all of its ",
                                              context.models[model].config.layers(), " layers"));
    }
  }
  return all;
}

}  // namespace ropelab::experiments
