// Looks at the attention probabilities of single query rows while their blocks are in cache. Nothing of them
// is kept here.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "worker/engine/observer.h"

namespace ropelab::engine {

// One row of one query head. Valid during the call only.
struct WatchedRow {
  int64_t layer = 0;
  int64_t head = 0;
  size_t place = 0;       // of the row among those that are watched
  int64_t first_key = 0;  // position of probabilities[0]; the positions before it have probability 0
  std::span<const float> probabilities;  // of the keys up to the row's own position
};

class RowWatch : public Observer {
 public:
  // `rows`: positions, ascending, unique. `read` is called once for each of them in every head of every
  // layer, from several threads at once, but never twice for one row of one head. `layer_done` is asked after
  // each layer, on one thread; an error ends the pass.
  RowWatch(std::vector<int64_t> rows, std::function<void(const WatchedRow&)> read,
           std::function<absl::Status()> layer_done)
      : rows_(std::move(rows)), read_(std::move(read)), layer_done_(std::move(layer_done)) {}

  bool WantsProbabilities(int64_t) override { return true; }
  void Probabilities(const ProbabilityBlock& block) override;
  absl::Status LayerDone(int64_t) override { return layer_done_(); }

 private:
  const std::vector<int64_t> rows_;
  const std::function<void(const WatchedRow&)> read_;
  const std::function<absl::Status()> layer_done_;
};

}  // namespace ropelab::engine
