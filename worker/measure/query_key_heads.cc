#include "worker/measure/query_key_heads.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/engine/spectrum.h"
#include "worker/measure/weight_one_thread.h"

namespace ropelab::measure {
namespace {

using engine::GramSum;

struct HeadNumbers {
  engine::Spectrum spectrum;
  double norm_rv = 0;
  bool finite = true;
};

// std / |mean|, ddof 0.
double RelativeVariation(const std::vector<double>& values) {
  const double count = static_cast<double>(values.size());
  double sum = 0;
  for (const double value : values) sum += value;
  const double mean = sum / count;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / count) / std::abs(mean);
}

void AppendNorms(const at::Tensor& wide, std::vector<double>& norms) {
  const double* x = wide.data_ptr<double>();
  const int64_t columns = wide.size(1);
  for (int64_t row = 0; row < wide.size(0); ++row, x += columns) {
    double squares = 0;
    for (int64_t i = 0; i < columns; ++i) squares += x[i] * x[i];
    norms.push_back(std::sqrt(squares));
  }
}

// A Gram matrix of fp32 numbers does not overflow in double: it is finite where they are.
bool Finite(const at::Tensor& gram) {
  return at::isfinite(gram.diagonal()).all().item<bool>();
}

engine::Spectrum SpectrumOfGram(const at::Tensor& gram, double energy) {
  return engine::SpectrumOf(engine::EigenOf(gram, /*vectors=*/false).values, energy);
}

// rows [N, D].
HeadNumbers NumbersOf(const at::Tensor& rows, double energy) {
  GramSum gram;
  std::vector<double> norms;
  norms.reserve(static_cast<size_t>(rows.size(0)));
  for (int64_t first = 0; first < rows.size(0); first += GramSum::kPieceRows) {
    const int64_t count = std::min(GramSum::kPieceRows, rows.size(0) - first);
    const at::Tensor wide = rows.narrow(0, first, count).to(at::kDouble).contiguous();
    AppendNorms(wide, norms);
    gram.Add(wide);
  }
  if (!Finite(gram.sum())) return {{}, 0, false};
  return {SpectrumOfGram(gram.sum(), energy), RelativeVariation(norms), true};
}

absl::Status NotFinite(const std::string& what) {
  return absl::FailedPreconditionError(
      absl::StrCat(what, " is NaN or infinite at some position; the checkpoint's weights do not compute in ",
                   "this dtype (FLOAT32 or BFLOAT16 reach further than FLOAT16)"));
}

}  // namespace

absl::StatusOr<v1::LayerSpectra> SpectraOfLayer(const at::Tensor& query, const at::Tensor& key,
                                                const at::Tensor& hidden, double energy) {
  const at::NoGradGuard no_gradients;
  const int64_t queries = query.size(1), keys = key.size(1);
  const at::Tensor hidden_gram = engine::SmallerGram(hidden, {});
  if (!Finite(hidden_gram)) return NotFinite("the hidden state");
  engine::Spectrum of_hidden;
  std::vector<HeadNumbers> numbers(static_cast<size_t>(queries + keys));
  // H's eigenproblem is the largest: it comes first.
  EachOnOneThread(1 + queries + keys, [&](int64_t item) {
    if (item == 0) {
      of_hidden = SpectrumOfGram(hidden_gram, energy);
      return;
    }
    const int64_t head = item - 1;
    numbers[static_cast<size_t>(head)] =
        NumbersOf(head < queries ? query.select(1, head) : key.select(1, head - queries), energy);
  });
  v1::LayerSpectra spectra;
  spectra.set_hidden_r1(of_hidden.r1);
  spectra.set_hidden_rank(of_hidden.rank);
  for (int64_t head = 0; head < queries + keys; ++head) {
    const HeadNumbers& of_head = numbers[static_cast<size_t>(head)];
    const bool is_query = head < queries;
    if (!of_head.finite) {
      return NotFinite(is_query ? absl::StrCat("the query of head ", head)
                                : absl::StrCat("the key of KV head ", head - queries));
    }
    (is_query ? spectra.mutable_query_r1() : spectra.mutable_key_r1())->Add(of_head.spectrum.r1);
    (is_query ? spectra.mutable_query_rank() : spectra.mutable_key_rank())->Add(of_head.spectrum.rank);
    (is_query ? spectra.mutable_query_norm_rv() : spectra.mutable_key_norm_rv())->Add(of_head.norm_rv);
  }
  return spectra;
}

int64_t LayerSpectraBytes(int64_t tokens, int64_t hidden_size, int64_t head_dim, int threads) {
  const int64_t wide = sizeof(double), n = std::min(tokens, hidden_size);
  // H's Gram matrix and LAPACK's two copies of it, and the piece of rows (or columns) that is added to it.
  const int64_t of_hidden = (3 * n * n + 2 * GramSum::kPieceRows * n + 8 * n) * wide;
  // Per thread: a head's piece, its Gram matrix with the same copies, its norms.
  const int64_t of_head = 3 * head_dim * head_dim + GramSum::kPieceRows * head_dim + 8 * head_dim + tokens;
  return of_hidden + threads * of_head * wide;
}

}  // namespace ropelab::measure
