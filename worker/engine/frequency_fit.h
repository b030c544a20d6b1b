// How well a function of the lag explains one head's logits: the cosines of its mean query and key
// (EXPERIMENTS.md 4; the slash paper, section 4.4), or the best function that there is.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <span>
#include <vector>

namespace ropelab::engine {

// f(x) = sum over pairs l of A_l cos(theta_l x + phi_l) at lags x = 0 .. tokens - 1, in double. Pair l's
// lower and upper dimension stand at 2 l and 2 l + 1 of `query` and `key`, which are before RoPE: A_l =
// |query_l| |key_l| factor^2, phi_l = atan2(query_upper, query_lower) - atan2(key_upper, key_lower). theta in
// rad/token; `factor`: what RoPE multiplies query and key with besides turning them.
std::vector<double> LagCosines(std::span<const double> query, std::span<const double> key,
                               std::span<const double> theta, double factor, int64_t tokens);

// Shares of the variance of the logits L(i, j) = query_i . key_j over all j <= i. NaN where that variance is
// 0.
struct FitShares {
  double r2 = 0;          // 1 - SSE / SST of f(i - j), SST about the mean of all L
  double r2_centred = 0;  // the same with L and f less their means over each row's j <= i
  double eta2 = 0;        // variance of the lags' means, each lag weighted by its entries, over L's
  bool finite = true;     // false: a logit is NaN or infinite, and the shares say nothing
};

// query, key: [D, N] fp32, contiguous, after RoPE, on the CPU; explained: f at lags 0 .. N - 1. Logits are
// fp32 products of a block of rows with the keys up to its last row; every sum is double. Squares are taken
// of differences from the row's own mean, and the rows' means are compared after that, so no two large sums
// are subtracted. Rows are dealt to kStrips strips, each one thread's from start to end, and strips are
// joined in their order: bits do not depend on the number of threads.
FitShares FitHead(const at::Tensor& query, const at::Tensor& key, const std::vector<double>& explained);

// Bytes that LagCosines and FitHead allocate at most, with `threads` threads.
int64_t FitBytes(int64_t tokens, int threads);

}  // namespace ropelab::engine
