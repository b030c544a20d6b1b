#include "worker/train/gaze.h"

#include <algorithm>
#include <span>
#include <vector>

namespace ropelab::train {
namespace {

constexpr int64_t kGazeRows = 32;  // of either kind
// Rows behind a needle count as a part of it: heads that look a few tokens back carry its code into them.
constexpr int64_t kBehind = 3;
constexpr double kLeastShare = 0.01;
constexpr double kNotSeen = -1e9;

struct Rows {
  std::vector<int64_t> asked, others;
};

// Of one sample. `needles`, `asked`: its row of the batch's masks; `needles` grows by the rows behind.
Rows RowsOf(float* needles, const float* asked, int64_t tokens) {
  Rows rows;
  std::vector<int64_t> grown;
  int64_t since = tokens;  // tokens since a needle ended; from `tokens` on: none has begun
  for (int64_t i = 0; i < tokens; ++i) {
    if (needles[i] != 0) {
      since = 0;
      continue;
    }
    if (since == tokens) continue;
    since = std::min(since + 1, tokens - 1);
    if (asked[i] != 0) {
      rows.asked.push_back(i);
    } else if (since > kBehind) {
      rows.others.push_back(i);
    } else {
      grown.push_back(i);
    }
  }
  for (const int64_t i : grown) needles[i] = 1;
  return rows;
}

}  // namespace

Gaze DrawGaze(const SampleBatch& batch, Philox& stream) {
  const int64_t samples = batch.ids.size(0), tokens = batch.ids.size(1);
  Gaze gaze{at::zeros({samples, 2 * kGazeRows}, at::kLong), at::zeros({samples, 2 * kGazeRows}, at::kFloat),
            batch.needles.clone()};
  const at::Tensor asked = batch.asked.contiguous();
  gaze.needles = gaze.needles.contiguous();
  for (int64_t b = 0; b < samples; ++b) {
    Rows rows =
        RowsOf(gaze.needles.data_ptr<float>() + b * tokens, asked.data_ptr<float>() + b * tokens, tokens);
    int64_t place = b * 2 * kGazeRows;
    for (std::vector<int64_t>* kind : {&rows.asked, &rows.others}) {
      stream.Shuffle(std::span<int64_t>(*kind));
      for (size_t i = 0; i < std::min(kind->size(), static_cast<size_t>(kGazeRows)); ++i) {
        gaze.rows.data_ptr<int64_t>()[place + static_cast<int64_t>(i)] = (*kind)[i];
        gaze.weights.data_ptr<float>()[place + static_cast<int64_t>(i)] = 1;
      }
      place += kGazeRows;
    }
  }
  for (const int64_t begin : {int64_t{0}, kGazeRows}) {
    at::Tensor part = gaze.weights.slice(1, begin, begin + kGazeRows);
    part.div_(part.sum().clamp_min(1));
  }
  return gaze;
}

at::Tensor StrayGaze(const at::Tensor& query, const at::Tensor& key, const Gaze& gaze,
                     const at::Tensor& free) {
  const int64_t batch = query.size(0), groups = query.size(1), shared = query.size(2);
  const int64_t tokens = query.size(3), width = query.size(4), rows = gaze.rows.size(1);
  const at::Tensor places =
      gaze.rows.view({batch, 1, 1, rows, 1}).expand({batch, groups, shared, rows, width});
  const at::Tensor logits =
      at::matmul(query.gather(3, places).to(at::kFloat), key.to(at::kFloat).unsqueeze(2).transpose(3, 4));
  const at::Tensor later =
      at::arange(tokens).view({1, 1, tokens}).gt(gaze.rows.unsqueeze(2)).view({batch, 1, 1, rows, tokens});
  const at::Tensor shares = at::softmax(logits.masked_fill(later, kNotSeen), -1);
  const at::Tensor on_needles = (shares * gaze.needles.view({batch, 1, 1, 1, tokens})).sum(-1);
  const at::Tensor stray = on_needles / (1 + kLeastShare - shares.select(-1, 0));
  return (stray * gaze.weights.view({batch, 1, 1, rows}) * (1 - free).view({1, groups, shared, 1})).sum() /
         static_cast<double>(groups * shared);
}

}  // namespace ropelab::train
