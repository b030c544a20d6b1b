#include "worker/engine/probe.h"

#include <ATen/Parallel.h>

#include <array>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/sha256.h"
#include "worker/engine/causal_softmax.h"
#include "worker/engine/decode_session.h"
#include "worker/engine/decoder.h"
#include "worker/engine/layer_ops.h"
#include "worker/engine/matrix_kernels.h"
#include "worker/engine/random.h"
#include "worker/engine/row_kernels.h"
#include "worker/engine/row_products.h"
#include "worker/engine/shared_objects.h"

namespace ropelab::engine {
namespace {

// Numbers in [-1, 1) from a stream that only the probe uses.
at::Tensor Numbers(at::IntArrayRef shape, uint64_t which, at::Device device) {
  constexpr uint64_t kProbeKey = 0x70726f6265;  // "probe"
  Philox stream({kProbeKey, kProbeKey}, {0, 0, which, 0});
  at::Tensor numbers = at::empty(shape, at::kFloat);
  float* values = numbers.data_ptr<float>();
  for (int64_t i = 0; i < numbers.numel(); ++i) values[i] = static_cast<float>(2 * stream.Double() - 1);
  return numbers.to(device);
}

struct Digest {
  Sha256 hash;
  void Add(const at::Tensor& tensor) {
    const at::Tensor here = tensor.cpu().contiguous();
    hash.Update({static_cast<const char*>(here.data_ptr()), static_cast<size_t>(here.nbytes())});
  }
};

// rows x columns results over `depth`: attention logits and outputs, projections, decoding.
struct ProductShape {
  int64_t rows, depth, columns;
};
constexpr std::array kShapes = {ProductShape{kBlockRows, 64, 300}, ProductShape{kBlockRows, 300, 64},
                                ProductShape{kRowChunk, 96, 200},  ProductShape{kDecodeRows, 96, 200},
                                ProductShape{kRowChunk, 17, 5},    ProductShape{kDecodeRows, 1100, 20}};

// A projection of the engine, and BLAS's product, by which measurements compare vectors.
at::Tensor BothProducts(const at::Tensor& x, const at::Tensor& weight) {
  const at::ScalarType type = ProductType(x.scalar_type(), x.device());
  return at::cat({Linear(x, weight, {}), at::mm(x.to(type), weight.to(type).t()).to(x.scalar_type())});
}

// As the engine's threads see it: one item per thread, products inside.
void AddProductsInsideThreads(Digest& digest, at::Device device) {
  std::vector<at::Tensor> results(kShapes.size());
  const auto run = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const ProductShape& s = kShapes[i];
      results[i] = BothProducts(Numbers({s.rows, s.depth}, 2 * i, device),
                                Numbers({s.columns, s.depth}, 2 * i + 1, device));
    }
  };
  if (device.is_cpu()) {
    at::parallel_for(0, static_cast<int64_t>(kShapes.size()), 1, run);
  } else {
    run(0, static_cast<int64_t>(kShapes.size()));
  }
  for (const at::Tensor& result : results) digest.Add(result);
}

void AddProductsAcrossThreads(Digest& digest, at::Device device) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (size_t i = 0; i < kShapes.size(); ++i) {
      const ProductShape& s = kShapes[i];
      digest.Add(BothProducts(Numbers({s.rows, s.depth}, 2 * i, device).to(type),
                              Numbers({s.columns, s.depth}, 2 * i + 1, device).to(type)));
    }
  }
}

void AddElementwise(Digest& digest, at::Device device) {
  at::Tensor logits = Numbers({3, 70, 100}, 100, device) * 20;
  CausalSoftmax(logits, {30, 0, 0}, 0.37);
  digest.Add(logits);
  const at::Tensor x = Numbers({40, 77}, 101, device);
  digest.Add(RmsNorm(x, Numbers({77}, 102, device), 1e-5));
  at::Tensor active = x.cpu().clone();
  ActivateRows(active, formats::Activation::kSilu);
  digest.Add(active);
  ActivateRows(active, formats::Activation::kGeluTanh);
  digest.Add(active);
  digest.Add(at::silu(x));
  digest.Add(at::rsqrt(x.abs() + 1e-6));
  digest.Add(at::exp(x * 10));
  std::vector<float> logit_row(101), output(77);
  const at::Tensor cpu = x.cpu().contiguous();
  QueryTimesKeys(cpu.data_ptr<float>(), cpu.data_ptr<float>() + 77, 8, 101, 101, logit_row.data());
  std::vector<float> sum_block(77);
  WeightedValues sum(77, sum_block.data(), output.data());
  sum.Add(logit_row.data(), cpu.data_ptr<float>(), 40, 30);
  sum.Finish();
  digest.Add(at::tensor(at::ArrayRef<float>(logit_row)));
  digest.Add(at::tensor(at::ArrayRef<float>(output)));
  std::vector<float> block(7 * 40);
  RowsTimesMatrixInBlocks({cpu.data_ptr<float>(), 77}, 7, 40, {cpu.data_ptr<float>(), 77}, 40, 30,
                          {block.data(), 40});
  digest.Add(at::tensor(at::ArrayRef<float>(block)));
  // libm in double: rotary tables and draws.
  std::vector<double> values;
  for (int i = 0; i < 200; ++i) {
    const double angle = 0.7309 * i * i;
    values.insert(values.end(), {std::cos(angle), std::sin(angle), std::exp(-0.1 * i), std::log(1.0 + i)});
  }
  digest.Add(at::tensor(at::ArrayRef<double>(values)));
}

// Largest error of a product relative to the sum of its terms' magnitudes.
double ProductError(const at::Tensor& a, const at::Tensor& b, const at::Tensor& product) {
  const at::Tensor wide_a = a.cpu().to(at::kDouble), wide_b = b.cpu().to(at::kDouble);
  const at::Tensor wide = product.cpu().to(at::kDouble).contiguous();
  double largest = 0;
  for (int64_t i = 0; i < a.size(0); ++i) {
    for (int64_t j = 0; j < b.size(0); ++j) {
      double sum = 0, magnitude = 0;
      const double* row = wide_a.data_ptr<double>() + i * a.size(1);
      const double* column = wide_b.data_ptr<double>() + j * b.size(1);
      for (int64_t k = 0; k < a.size(1); ++k) {
        sum += row[k] * column[k];
        magnitude += std::abs(row[k] * column[k]);
      }
      const double error = std::abs(wide.data_ptr<double>()[i * b.size(0) + j] - sum) / magnitude;
      if (!(error <= largest)) largest = error;  // also when it is not a number
    }
  }
  return largest;
}

}  // namespace

std::string ProbeDigest(at::Device device) {
  at::NoGradGuard no_gradients;
  Digest digest;
  AddProductsInsideThreads(digest, device);
  AddProductsAcrossThreads(digest, device);
  AddElementwise(digest, device);
  return digest.hash.FinishHex().substr(0, 16);
}

absl::Status CheckProducts(at::Device device) {
  at::NoGradGuard no_gradients;
  for (const auto& [type, tolerance] : {std::pair{at::kFloat, 1e-5}, std::pair{at::kBFloat16, 1e-2}}) {
    const at::Tensor a = Numbers({70, 130}, 200, device).to(type),
                     b = Numbers({90, 130}, 201, device).to(type);
    const double error = std::max(ProductError(a, b, Linear(a, b, {})), ProductError(a, b, at::mm(a, b.t())));
    if (!(error <= tolerance)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "a small product on ", device.str(), " in ", at::toString(type), " is off by ", error,
          " relative to its terms (at most ", tolerance, " is right): the BLAS in ", ObjectOfSymbol("sgemm_"),
          " or oneDNN computes wrong on this processor; install another BLAS (libopenblas0) or set "
          "OPENBLAS_CORETYPE"));
    }
  }
  return absl::OkStatus();
}

}  // namespace ropelab::engine
