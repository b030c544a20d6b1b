#include "worker/measure/frequency_sums.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/engine/frequency_products.h"

namespace ropelab::measure {
namespace {

constexpr int64_t kNumbersPerPiece = 65536;  // doubles: half of what a reading may hold

double Sum(const float* values, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(values[i]);
  return sum;
}

// ddof 0.
double StdOf(const std::vector<double>& values) {
  const double count = static_cast<double>(values.size());
  double mean = 0, squares = 0;
  for (const double value : values) mean += value;
  mean /= count;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / count);
}

}  // namespace

FrequencySums::FrequencySums(const v1::FrequencyProfile& request, int place, int64_t head_dim)
    : head_(request.heads(place)), skip_first_(request.skip_first()), pairs_(head_dim / 2) {
  const size_t pairs = static_cast<size_t>(pairs_);
  query_.resize(2 * pairs);
  key_.resize(2 * pairs);
  products_.resize(pairs);
  magnitudes_.resize(pairs);
  if (head_.has_offset()) at_lag_.resize(pairs);
  for (const int64_t row : request.rows()) {
    rows_.push_back(
        {row, std::vector<double>(pairs * static_cast<size_t>(row + 1)), std::vector<double>(pairs)});
  }
}

absl::Status FrequencySums::Add(const engine::FrequencyVectors::Vectors& before_rope,
                                const engine::FrequencyVectors::Vectors& rotated,
                                const FrequencyPairs& pairs) {
  ++prompts_;
  theta_ = pairs.theta;
  at::parallel_for(0, pairs_, 1, [&](int64_t begin, int64_t end) {
    for (int64_t pair = begin; pair < end; ++pair) AddPair(before_rope, rotated, pairs.places[pair], pair);
  });
  for (int64_t pair = 0; pair < pairs_; ++pair) {
    if (!std::isfinite(magnitudes_[pair] + query_[2 * pair] + query_[2 * pair + 1] + key_[2 * pair] +
                       key_[2 * pair + 1])) {
      return absl::FailedPreconditionError(
          absl::StrCat("head ", HeadName(head_), ", RoPE pair ", pair + 1,
                       ": a query or a key is NaN or infinite, or their product is; FLOAT32 or BFLOAT16 "
                       "reach further than FLOAT16"));
    }
  }
  return absl::OkStatus();
}

void FrequencySums::AddPair(const engine::FrequencyVectors::Vectors& before_rope,
                            const engine::FrequencyVectors::Vectors& rotated, int64_t stored, int64_t pair) {
  const int64_t tokens = rotated.query.size(1);
  const auto row = [&](const at::Tensor& vectors, int64_t dimension) {
    return vectors.data_ptr<float>() + dimension * tokens;
  };
  const int64_t low = stored, high = stored + pairs_;
  const double count = static_cast<double>(tokens);
  query_[2 * pair] += Sum(row(before_rope.query, low), tokens) / count;
  query_[2 * pair + 1] += Sum(row(before_rope.query, high), tokens) / count;
  key_[2 * pair] += Sum(row(before_rope.key, low), tokens) / count;
  key_[2 * pair + 1] += Sum(row(before_rope.key, high), tokens) / count;
  const engine::PairVectors vectors{row(rotated.query, low), row(rotated.query, high), row(rotated.key, low),
                                    row(rotated.key, high), tokens};
  const double entries = count * (count + 1) / 2;
  products_[pair] += engine::SumOfProducts(vectors) / entries;
  magnitudes_[pair] += engine::SumOfMagnitudes(vectors) / entries;
  if (head_.has_offset()) {
    const double counted = static_cast<double>(tokens - head_.offset() - skip_first_);
    at_lag_[pair] += engine::SumAtLag(vectors, head_.offset(), skip_first_) / counted;
  }
  for (HeatRow& heat : rows_) {
    std::vector<double> products(static_cast<size_t>(heat.row + 1));
    engine::ProductsOfRow(vectors, heat.row, products.data());
    double* sums = heat.products.data() + pair * (heat.row + 1);
    for (size_t j = 0; j < products.size(); ++j) sums[j] += products[j];
    heat.std[pair] += StdOf(products);
  }
}

absl::Status FrequencySums::Emit(double attention_factor, Recorder& recorder) const {
  v1::Reading reading;
  v1::HeadFrequencies& said = *reading.mutable_head_frequencies();
  said.set_layer(head_.layer());
  said.set_head(head_.head());
  said.set_prompts(prompts_);
  said.mutable_theta()->Add(theta_.begin(), theta_.end());
  said.mutable_means()->mutable_query()->Add(query_.begin(), query_.end());
  said.mutable_means()->mutable_key()->Add(key_.begin(), key_.end());
  said.mutable_mean_inp()->Add(products_.begin(), products_.end());
  said.mutable_mean_abs_inp()->Add(magnitudes_.begin(), magnitudes_.end());
  said.mutable_inp_at_lag()->Add(at_lag_.begin(), at_lag_.end());
  said.set_attention_factor(attention_factor);
  ROPELAB_RETURN_IF_ERROR(recorder.Emit(std::move(reading), {}));
  for (const HeatRow& row : rows_) ROPELAB_RETURN_IF_ERROR(EmitRow(row, recorder));
  return absl::OkStatus();
}

absl::Status FrequencySums::EmitRow(const HeatRow& row, Recorder& recorder) const {
  const int64_t keys = row.row + 1, per_piece = std::max<int64_t>(1, kNumbersPerPiece / keys);
  for (int64_t first = 0; first < pairs_; first += per_piece) {
    const int64_t pairs = std::min(per_piece, pairs_ - first);
    v1::Reading reading;
    v1::HeatMapPiece& piece = *reading.mutable_heat_map_piece();
    piece.set_layer(head_.layer());
    piece.set_head(head_.head());
    piece.set_row(row.row);
    piece.set_prompts(prompts_);
    piece.set_first_pair(static_cast<int32_t>(first + 1));
    piece.set_pairs(static_cast<int32_t>(pairs));
    const auto from = row.products.begin() + first * keys;
    piece.mutable_inp()->Add(from, from + pairs * keys);
    piece.mutable_std()->Add(row.std.begin() + first, row.std.begin() + first + pairs);
    ROPELAB_RETURN_IF_ERROR(recorder.Emit(std::move(reading), {}));
  }
  return absl::OkStatus();
}

int64_t FrequencySums::Bytes(const v1::FrequencyProfile& request, int64_t head_dim, int64_t tokens) {
  int64_t doubles = 5 * head_dim;
  for (const int64_t row : request.rows()) {
    doubles += head_dim / 2 * (std::clamp<int64_t>(row, 0, tokens - 1) + 2);
  }
  return doubles * static_cast<int64_t>(sizeof(double));
}

}  // namespace ropelab::measure
