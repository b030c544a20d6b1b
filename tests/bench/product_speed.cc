// The engine's fp32 products beside BLAS's at the shapes of decoding, passes and attention, one thread each,
// by turns: seconds, their ratio, and both errors against double.
//
//   product_speed [--bar 1.0] [--rounds 15]
//
// Exits 1 when the median over the shapes of BLAS's time by the engine's is below the bar.
#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "worker/engine/matrix_kernels.h"
#include "worker/engine/row_products.h"
#include "worker/engine/threads.h"

namespace ropelab::engine {
namespace {

double Once(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Root mean square of the error, in units of the results' own.
double Error(const at::Tensor& product, const at::Tensor& exact) {
  return ((product.to(at::kDouble) - exact).square().mean() / exact.square().mean()).sqrt().item<double>();
}

struct Case {
  const char* name;
  int64_t rows, depth, columns;
  bool attention;  // by RowsTimesMatrixInBlocks
};
// Projections of the shape of Qwen2.5-0.5B and of a 7B model; attention of 7 heads in a group, 32 rows a
// block.
constexpr Case kCases[] = {{"decoding, hidden to hidden", 8, 896, 896, false},
                           {"decoding, MLP up", 8, 896, 4864, false},
                           {"decoding, MLP down", 8, 4864, 896, false},
                           {"decoding, 4096 to 4096", 8, 4096, 4096, false},
                           {"decoding one row", 1, 896, 4864, false},
                           {"a pass, hidden to hidden", 64, 896, 896, false},
                           {"a pass, MLP up", 64, 896, 4864, false},
                           {"a pass, MLP down", 64, 4864, 896, false},
                           {"a pass, 4096 to 4096", 64, 4096, 4096, false},
                           {"a pass, small model", 64, 96, 256, false},
                           {"attention logits, 2048 keys", 224, 64, 2048, true},
                           {"attention outputs, 2048 keys", 224, 2048, 64, true}};

double Ratio(const Case& c, int rounds) {
  const at::Tensor x = at::randn({c.rows, c.depth}), weight = at::randn({c.columns, c.depth});
  const at::Tensor matrix = weight.t().contiguous();
  const at::Tensor exact = at::mm(x.to(at::kDouble), matrix.to(at::kDouble));
  at::Tensor own = at::empty({c.rows, c.columns}), blas = at::empty({c.rows, c.columns});
  const auto by_engine = [&] {
    if (c.attention) {
      RowsTimesMatrixInBlocks({x.data_ptr<float>(), c.depth}, c.rows, c.depth,
                              {matrix.data_ptr<float>(), c.columns}, c.columns, 0,
                              {own.data_ptr<float>(), c.columns});
    } else {
      own = RowProducts(x, weight, {});
    }
  };
  const auto by_blas = [&] { at::mm_out(blas, x, c.attention ? matrix : weight.t()); };
  double engine = std::numeric_limits<double>::infinity(), other = engine;
  for (int round = 0; round < rounds; ++round) {
    engine = std::min(engine, Once(by_engine));
    other = std::min(other, Once(by_blas));
  }
  std::printf(
      "%-30s %4lld x %4lld x %4lld: %8.1f us, BLAS %8.1f us, %.2f times as fast; error %.1e, BLAS %.1e\n",
      c.name, static_cast<long long>(c.rows), static_cast<long long>(c.depth),
      static_cast<long long>(c.columns), engine * 1e6, other * 1e6, other / engine, Error(own, exact),
      Error(blas, exact));
  return other / engine;
}

int Main(int argc, char** argv) {
  double bar = 1.0;
  int rounds = 15;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i], value = argv[i + 1];
    if (flag == "--bar") bar = std::atof(value.c_str());
    if (flag == "--rounds") rounds = std::atoi(value.c_str());
  }
  SetThreads(1);
  at::manual_seed(1);
  const at::NoGradGuard no_gradients;
  std::vector<double> ratios;
  for (const Case& c : kCases) ratios.push_back(Ratio(c, rounds));
  std::sort(ratios.begin(), ratios.end());
  const double median = ratios[ratios.size() / 2];
  std::printf("median %.2f times as fast as BLAS (bar %.2f), least %.2f\n", median, bar, ratios.front());
  return median >= bar ? 0 : 1;
}

}  // namespace
}  // namespace ropelab::engine

int main(int argc, char** argv) {
  return ropelab::engine::Main(argc, argv);
}
