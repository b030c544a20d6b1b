#include "worker/measure/vocabulary_profile.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/engine/layer_ops.h"
#include "worker/measure/vocabulary_alignment.h"
#include "worker/measure/vocabulary_cone.h"
#include "worker/measure/vocabulary_rows.h"
#include "worker/measure/weight_one_thread.h"
#include "worker/model/int8_weights.h"

namespace ropelab::measure {
namespace {

constexpr int64_t kStretch = 16 * VocabularyReader::kTileRows;  // tokens that are in memory at once
constexpr int64_t kMostRandomVectors = 4096;

absl::Status CheckRequest(const v1::VocabularyProfile& request, const formats::ModelConfig& config) {
  if (request.tokens() < 1 || request.tokens() > config.vocabulary) {
    return absl::InvalidArgumentError(absl::StrCat("weight_profile.vocabulary.tokens is ", request.tokens(),
                                                   "; the model's embedding has ", config.vocabulary,
                                                   " rows: give 1 to as many"));
  }
  if (request.random_vectors() < 0 || request.random_vectors() > kMostRandomVectors) {
    return absl::InvalidArgumentError(absl::StrCat("weight_profile.vocabulary.random_vectors is ",
                                                   request.random_vectors(), "; give 0 to ",
                                                   kMostRandomVectors));
  }
  return absl::OkStatus();
}

bool Finite(const VocabularyRows& rows) {
  for (const at::Tensor& part : {rows.x, rows.cone_x, rows.query, rows.key}) {
    if (!at::isfinite(part).all().item<bool>()) return false;
  }
  return true;
}

// Both projections' heads stand in one row everywhere: query heads first, then KV heads.
class VocabularyPasses {
 public:
  VocabularyPasses(const v1::WeightProfile& request, const model::LoadedModel& model, Recorder& recorder)
      : vocabulary_(request.vocabulary()),
        energy_(request.energy()),
        model_(model),
        config_(model.config),
        recorder_(recorder),
        reader_(model, !vocabulary_.has_norm_weight() || vocabulary_.norm_weight()),
        heads_(config_.query_heads + config_.kv_heads),
        stretches_((vocabulary_.tokens() + kStretch - 1) / kStretch) {}

  absl::Status Go() {
    ROPELAB_RETURN_IF_ERROR(Align());
    ROPELAB_RETURN_IF_ERROR(Surround());
    ROPELAB_RETURN_IF_ERROR(Emit(v1::Matrix::QUERY));
    return Emit(v1::Matrix::KEY);
  }

 private:
  bool OfQuery(int64_t item) const { return item < config_.query_heads; }
  int64_t HeadOf(int64_t item) const { return OfQuery(item) ? item : item - config_.query_heads; }
  int64_t RowsOf(int64_t stretch) const {
    return std::min(kStretch, vocabulary_.tokens() - stretch * kStretch);
  }
  // Of passes over the vocabulary there are two.
  absl::Status Progress(int64_t stretches_done) {
    return recorder_.Progress(static_cast<double>(stretches_done), static_cast<double>(2 * stretches_));
  }

  absl::Status Align();
  absl::Status Surround();
  absl::Status Emit(v1::Matrix::Value matrix);

  const v1::VocabularyProfile& vocabulary_;
  const double energy_;
  const model::LoadedModel& model_;
  const formats::ModelConfig& config_;
  Recorder& recorder_;
  const VocabularyReader reader_;
  const int64_t heads_;
  const int64_t stretches_;
  std::vector<Alignment> alignments_;
  std::vector<AxisSums> axes_;  // of the heads, then of the random vectors
};

// The first pass.
absl::Status VocabularyPasses::Align() {
  const model::LayerWeights& weights = model_.weights.layers[0];
  std::vector<std::optional<AlignmentSums>> sums(static_cast<size_t>(heads_));
  EachOnOneThread(heads_, [&](int64_t item) {
    const bool query = OfQuery(item);
    sums[item].emplace(model::WidenedRows(query ? weights.query : weights.key,
                                          query ? weights.query_scale : weights.key_scale,
                                          HeadOf(item) * config_.head_dim, config_.head_dim),
                       energy_);
  });
  for (int64_t stretch = 0; stretch < stretches_; ++stretch) {
    const int64_t first = stretch * kStretch;
    const VocabularyRows rows = reader_.Read(first, RowsOf(stretch));
    if (!Finite(rows)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "layer 0, token ids ", first, "..", first + RowsOf(stretch) - 1,
          ": a normed embedding, a query or a key is NaN or infinite; the checkpoint's weights do not ",
          "compute in this dtype (FLOAT32 or BFLOAT16 reach further than FLOAT16)"));
    }
    EachOnOneThread(heads_, [&](int64_t item) {
      sums[item]->Add(rows, (OfQuery(item) ? rows.query : rows.key).select(1, HeadOf(item)));
    });
    ROPELAB_RETURN_IF_ERROR(Progress(stretch + 1));
  }
  alignments_.resize(sums.size());
  EachOnOneThread(heads_, [&](int64_t item) { alignments_[item] = sums[item]->Finish(); });
  return absl::OkStatus();
}

// The second pass: an axis is known only when the first has seen every token.
absl::Status VocabularyPasses::Surround() {
  std::vector<at::Tensor> axes;
  for (const Alignment& alignment : alignments_) axes.push_back(alignment.axis.unsqueeze(0));
  axes.push_back(RandomAxes(vocabulary_.seed(), vocabulary_.random_vectors(), config_.hidden_size));
  ConeSums sums(at::cat(axes));
  for (int64_t stretch = 0; stretch < stretches_; ++stretch) {
    sums.Add(reader_.ReadCone(stretch * kStretch, RowsOf(stretch)));
    ROPELAB_RETURN_IF_ERROR(Progress(stretches_ + stretch + 1));
  }
  axes_ = sums.axes();
  return absl::OkStatus();
}

absl::Status VocabularyPasses::Emit(v1::Matrix::Value matrix) {
  const bool query = matrix == v1::Matrix::QUERY;
  const model::LayerWeights& weights = model_.weights.layers[0];
  const at::Tensor& bias = query ? weights.query_bias : weights.key_bias;
  v1::Reading reading;
  v1::VocabularySide& side = *reading.mutable_vocabulary_side();
  side.set_matrix(matrix);
  side.set_tokens(vocabulary_.tokens());
  for (int64_t item = 0; item < heads_; ++item) {
    if (OfQuery(item) != query) continue;
    const Alignment& alignment = alignments_[item];
    side.add_r1(alignment.spectrum.r1);
    side.add_rank(alignment.spectrum.rank);
    side.add_aligned_r1(alignment.r1);
    side.add_aligned_rank(alignment.rank);
    side.add_axis_rv(axes_[item].RelativeVariation());
    side.add_mean_norm(alignment.mean_norm);
    const AxisSums::Counts& counts = axes_[item].CosineCounts();
    side.add_cosines()->mutable_counts()->Add(counts.begin(), counts.end());
    if (!bias.defined()) continue;
    const at::Tensor own = bias.narrow(0, HeadOf(item) * config_.head_dim, config_.head_dim);
    side.add_bias_norm(own.to(at::kCPU, at::kDouble).norm().item<double>());
  }
  for (size_t vector = static_cast<size_t>(heads_); vector < axes_.size(); ++vector) {
    side.add_random_rv(axes_[vector].RelativeVariation());
  }
  return recorder_.Emit(std::move(reading), {});
}

}  // namespace

absl::Status MeasureVocabulary(const v1::WeightProfile& request, const model::LoadedModel& model,
                               Recorder& recorder) {
  ROPELAB_RETURN_IF_ERROR(CheckRequest(request.vocabulary(), model.config));
  const at::NoGradGuard no_gradients;
  return VocabularyPasses(request, model, recorder).Go();
}

// What is out of bounds is refused by MeasureVocabulary with a better word than a size, so it is cut off
// here.
int64_t VocabularyBytes(const v1::VocabularyProfile& request, const model::LoadedModel& model) {
  const formats::ModelConfig& config = model.config;
  const int64_t threads = at::get_num_threads();
  const int64_t d = config.hidden_size, head = config.head_dim;
  const int64_t heads = config.query_heads + config.kv_heads, projected = (heads + config.kv_heads) * head;
  const int64_t wide = sizeof(double), narrow = sizeof(float);
  const int64_t rows = std::clamp<int64_t>(request.tokens(), 1, std::min(kStretch, config.vocabulary));
  const int64_t tile = VocabularyReader::kTileRows;
  const int64_t vectors = std::clamp<int64_t>(request.random_vectors(), 0, kMostRandomVectors);

  // Per head U'W and the Gram matrix; the projections once more where products are taken in another dtype.
  const bool widens =
      engine::ProductType(model.dtype, model.device) != model.dtype || model::WidenedBytes(model.weights) > 0;
  const int64_t kept = heads * (head * d + head * head) * wide + (widens ? projected * (d + 1) * narrow : 0);
  // Axes, and once more while they are joined; two histograms each.
  const int64_t axes = (heads + vectors) * (2 * d * wide + static_cast<int64_t>(sizeof(AxisSums)) * 2);
  // The rows, and what it takes to see whether one of their parts is finite: a copy and three masks.
  const int64_t stretch = rows * (2 * d + 1) * wide + rows * heads * head * narrow +
                          rows * std::max(d * (wide + 3), heads * head * (narrow + 3));
  // Per thread: a tile between its steps, or a head's weights, eigenproblem and products.
  const int64_t on_tile = tile * (6 * d * narrow + d * wide + 3 * projected * narrow);
  const int64_t on_head = 2 * head * d * wide + 6 * head * head * wide + 4 * rows * head * wide;
  return kept + axes + stretch + threads * std::max(on_tile, on_head);
}

}  // namespace ropelab::measure
