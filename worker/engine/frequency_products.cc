#include "worker/engine/frequency_products.h"

#include <algorithm>
#include <cmath>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define ROPELAB_VECTOR_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define ROPELAB_VECTOR_CLONES
#endif

namespace ropelab::engine {
namespace {

constexpr int kLanes = 32;          // running sums; fixed, so that no order follows the vector width
constexpr int64_t kPartial = 1024;  // entries summed in fp32 before the sum is widened

// Of one query against keys [0, n), n <= kPartial.
inline __attribute__((always_inline)) float MagnitudesOfPart(float low, float high, const float* key_low,
                                                             const float* key_high, int64_t n) {
  float lanes[kLanes] = {};
  const int64_t whole = n - n % kLanes;
  for (int64_t j = 0; j < whole; j += kLanes) {
    for (int l = 0; l < kLanes; ++l) lanes[l] += std::fabs(low * key_low[j + l] + high * key_high[j + l]);
  }
  float sum = 0;
  for (int l = 0; l < kLanes; ++l) sum += lanes[l];
  for (int64_t j = whole; j < n; ++j) sum += std::fabs(low * key_low[j] + high * key_high[j]);
  return sum;
}

double Product(const PairVectors& pair, int64_t query, int64_t key) {
  return static_cast<double>(pair.query_low[query]) * static_cast<double>(pair.key_low[key]) +
         static_cast<double>(pair.query_high[query]) * static_cast<double>(pair.key_high[key]);
}

}  // namespace

double SumOfProducts(const PairVectors& pair) {
  double sum = 0, low = 0, high = 0;
  for (int64_t i = 0; i < pair.tokens; ++i) {
    low += static_cast<double>(pair.key_low[i]);
    high += static_cast<double>(pair.key_high[i]);
    sum += static_cast<double>(pair.query_low[i]) * low + static_cast<double>(pair.query_high[i]) * high;
  }
  return sum;
}

ROPELAB_VECTOR_CLONES double SumOfMagnitudes(const PairVectors& pair) {
  double sum = 0;
  for (int64_t i = 0; i < pair.tokens; ++i) {
    for (int64_t j = 0; j <= i; j += kPartial) {
      sum += static_cast<double>(MagnitudesOfPart(pair.query_low[i], pair.query_high[i], pair.key_low + j,
                                                  pair.key_high + j, std::min(kPartial, i + 1 - j)));
    }
  }
  return sum;
}

double SumAtLag(const PairVectors& pair, int64_t offset, int64_t first_key) {
  double sum = 0;
  for (int64_t key = first_key; key < pair.tokens - offset; ++key) sum += Product(pair, key + offset, key);
  return sum;
}

void ProductsOfRow(const PairVectors& pair, int64_t row, double* products) {
  for (int64_t key = 0; key <= row; ++key) products[key] = Product(pair, row, key);
}

}  // namespace ropelab::engine
