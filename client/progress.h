// What a watched run shows while it goes on. Pure: events and seconds in, text out.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ropelab/v1/experiment_service.pb.h"

namespace ropelab::client {

// Tasks measured per second over the last minute; reused tasks are nobody's speed.
class RateMeter {
 public:
  void Add(double seconds, const v1::Experiment& experiment);
  double rate() const;  // negative: not known yet

 private:
  std::deque<std::pair<double, int64_t>> points_;
};

// The latest state of every experiment of a watch, in the order in which they were first seen.
class WatchedExperiments {
 public:
  // `seconds` is any clock that does not go back.
  void Update(const v1::WatchEvent& event, double seconds);
  const std::vector<v1::Experiment>& experiments() const { return experiments_; }
  double rate(const std::string& id) const;
  bool AllFinal() const;  // false while none is known
  bool AllDone() const;

 private:
  std::vector<v1::Experiment> experiments_;
  std::map<std::string, RateMeter> meters_;
};

class ProgressView {
 public:
  virtual ~ProgressView() = default;
  // The text to write now; often empty.
  virtual std::string Show(const WatchedExperiments& watched, double seconds) = 0;
  // A line between the others, for the connection's state.
  virtual std::string Note(const std::string& line) = 0;
};

// One line per experiment, rewritten in place, cut to `width` columns.
std::unique_ptr<ProgressView> MakeTerminalProgress(int64_t width);
// A new line when an experiment's state or reason changes, and at most one every five seconds when only
// numbers do.
std::unique_ptr<ProgressView> MakeLineProgress();

}  // namespace ropelab::client
