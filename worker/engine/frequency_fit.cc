#include "worker/engine/frequency_fit.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "worker/engine/decoder.h"
#include "worker/engine/frequency_fit_rows.h"
#include "worker/engine/observer.h"

namespace ropelab::engine {
namespace {

// One head's sums. Lags are stored from the longest to 0, so that along a row they lie as its keys do: key j
// of row i is at N - 1 - i + j.
class HeadSums {
 public:
  HeadSums(const at::Tensor& query, const at::Tensor& key, const std::vector<double>& explained)
      : query_(query),
        key_(key),
        tokens_(query.size(1)),
        explained_(explained.rbegin(), explained.rend()),
        explained_means_(static_cast<size_t>(tokens_)),
        row_means_(static_cast<size_t>(tokens_)),
        strips_(kStrips) {
    double sum = 0;
    for (int64_t row = 0; row < tokens_; ++row) {
      sum += explained[row];
      explained_means_[row] = sum / static_cast<double>(row + 1);
    }
    // The first logit, rounded as the others are: equal logits then differ from it by exactly 0.
    double first = 0;
    for (int64_t d = 0; d < query.size(0); ++d) {
      first += static_cast<double>(query_.data_ptr<float>()[d * tokens_]) *
               static_cast<double>(key_.data_ptr<float>()[d * tokens_]);
    }
    pilot_ = static_cast<double>(static_cast<float>(first));
  }

  void Run() {
    at::parallel_for(0, kStrips, 1, [&](int64_t begin, int64_t end) {
      const at::NoGradGuard no_gradients;
      for (int64_t strip = begin; strip < end; ++strip) RunStrip(strip);
    });
  }
  FitShares Shares() const;

 private:
  struct Strip {
    std::vector<double> lags;  // sums of L - pilot
    RowSquares within;
  };
  void RunStrip(int64_t index);

  const at::Tensor& query_;
  const at::Tensor& key_;
  const int64_t tokens_;
  const std::vector<double> explained_;  // f, from the longest lag to 0
  std::vector<double> explained_means_;  // per row, of f
  std::vector<double> row_means_;        // per row, of L - pilot
  double pilot_ = 0;
  std::vector<Strip> strips_;
};

void HeadSums::RunStrip(int64_t index) {
  Strip& strip = strips_[index];
  strip.lags.resize(static_cast<size_t>(tokens_));
  if (index * kBlockRows >= tokens_) return;
  const at::Tensor buffer = at::empty({std::min(kBlockRows, tokens_) * tokens_}, at::kFloat);
  for (int64_t first = index * kBlockRows; first < tokens_; first += kStrips * kBlockRows) {
    const int64_t rows = std::min(kBlockRows, tokens_ - first), width = first + rows;
    at::Tensor logits = buffer.narrow(0, 0, rows * width).view({rows, width});
    at::mm_out(logits, query_.narrow(1, first, rows).t(), key_.narrow(1, 0, width));
    for (int64_t row = first; row < first + rows; ++row) {
      const float* values = logits.data_ptr<float>() + (row - first) * width;
      const int64_t keys = row + 1, longest = tokens_ - keys;
      const double sum = AddDifferences(values, keys, pilot_, strip.lags.data() + longest);
      row_means_[row] = sum / static_cast<double>(keys);
      const RowSquares squares = SquaresOfRow(values, keys, pilot_, row_means_[row],
                                              explained_.data() + longest, explained_means_[row]);
      strip.within.variation += squares.variation;
      strip.within.error += squares.error;
    }
  }
}

FitShares HeadSums::Shares() const {
  // Sums about the mean of everything are those within rows and those of the rows' means.
  RowSquares within;
  std::vector<double> lags(static_cast<size_t>(tokens_));
  for (const Strip& strip : strips_) {
    within.variation += strip.within.variation;
    within.error += strip.within.error;
    for (int64_t lag = 0; lag < tokens_; ++lag) lags[lag] += strip.lags[lag];
  }
  double mean = 0;
  for (int64_t row = 0; row < tokens_; ++row) mean += row_means_[row] * static_cast<double>(row + 1);
  mean /= static_cast<double>(tokens_) * static_cast<double>(tokens_ + 1) / 2;
  double variation = within.variation, error = within.error, by_lag = 0;
  for (int64_t row = 0; row < tokens_; ++row) {
    // Row r has as many entries as the lag at place r has pairs.
    const double entries = static_cast<double>(row + 1);
    const double off_mean = row_means_[row] - mean;
    const double off_explained = row_means_[row] - (explained_means_[row] - pilot_);
    const double lag_off_mean = lags[row] / entries - mean;
    variation += entries * off_mean * off_mean;
    error += entries * off_explained * off_explained;
    by_lag += entries * lag_off_mean * lag_off_mean;
  }
  const auto share = [](double part, double whole) {
    return whole > 0 ? part / whole : std::numeric_limits<double>::quiet_NaN();
  };
  return {.r2 = 1 - share(error, variation),
          .r2_centred = 1 - share(within.error, within.variation),
          .eta2 = share(by_lag, variation),
          .finite = std::isfinite(variation) && std::isfinite(error)};
}

}  // namespace

std::vector<double> LagCosines(std::span<const double> query, std::span<const double> key,
                               std::span<const double> theta, double factor, int64_t tokens) {
  const size_t pairs = theta.size();
  std::vector<double> amplitudes(pairs), phases(pairs);
  for (size_t pair = 0; pair < pairs; ++pair) {
    const size_t low = 2 * pair, high = low + 1;
    amplitudes[pair] =
        std::hypot(query[low], query[high]) * std::hypot(key[low], key[high]) * factor * factor;
    phases[pair] = std::atan2(query[high], query[low]) - std::atan2(key[high], key[low]);
  }
  std::vector<double> sums(static_cast<size_t>(tokens));
  at::parallel_for(0, tokens, 64, [&](int64_t begin, int64_t end) {
    for (int64_t lag = begin; lag < end; ++lag) {
      double sum = 0;
      for (size_t pair = 0; pair < pairs; ++pair) {
        sum += amplitudes[pair] * std::cos(theta[pair] * static_cast<double>(lag) + phases[pair]);
      }
      sums[lag] = sum;
    }
  });
  return sums;
}

FitShares FitHead(const at::Tensor& query, const at::Tensor& key, const std::vector<double>& explained) {
  HeadSums sums(query, key, explained);
  sums.Run();
  return sums.Shares();
}

int64_t FitBytes(int64_t tokens, int threads) {
  // f twice, the means of rows and of f, the lags' sums per strip and joined.
  const int64_t doubles = (5 + kStrips) * tokens;
  const int64_t blocks = std::min<int64_t>(threads, kStrips) * std::min(kBlockRows, tokens) * tokens;
  return doubles * static_cast<int64_t>(sizeof(double)) + blocks * static_cast<int64_t>(sizeof(float));
}

}  // namespace ropelab::engine
