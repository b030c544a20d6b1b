#include "client/progress.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/experiment_view.h"
#include "client/human.h"

namespace ropelab::client {
namespace {

constexpr double kRateSeconds = 60;
constexpr double kQuietSeconds = 5;
constexpr double kRedrawSeconds = 0.1;

class TerminalProgress : public ProgressView {
 public:
  explicit TerminalProgress(int64_t width) : width_(width) {}

  std::string Show(const WatchedExperiments& watched, double seconds) override {
    // Drawing costs the reader more than a late number does; the last state is always drawn.
    if (drawn_lines_ > 0 && seconds - drawn_at_ < kRedrawSeconds && !watched.AllFinal()) {
      return "";
    }
    drawn_at_ = seconds;
    std::string text = drawn_lines_ == 0 ? "" : absl::StrCat("\x1b[", drawn_lines_, "A");
    for (const v1::Experiment& experiment : watched.experiments()) {
      absl::StrAppend(&text, "\r\x1b[K",
                      Shortened(RenderProgress(experiment, watched.rate(experiment.id())), width_ - 1), "\n");
    }
    drawn_lines_ = watched.experiments().size();
    return text;
  }

  std::string Note(const std::string& line) override {
    drawn_lines_ = 0;  // what was drawn stays above the note
    return Printable(line) + "\n";
  }

 private:
  int64_t width_;
  size_t drawn_lines_ = 0;
  double drawn_at_ = 0;
};

class LineProgress : public ProgressView {
 public:
  std::string Show(const WatchedExperiments& watched, double seconds) override {
    std::string text;
    for (const v1::Experiment& experiment : watched.experiments()) {
      std::string line = RenderProgress(experiment, watched.rate(experiment.id()));
      const std::string status = absl::StrCat(experiment.state(), "\n", experiment.reason());
      Shown& shown = shown_[experiment.id()];
      if (status == shown.status && (line == shown.line || seconds - shown.seconds < kQuietSeconds)) {
        continue;
      }
      absl::StrAppend(&text, line, "\n");
      shown = {status, std::move(line), seconds};
    }
    return text;
  }

  std::string Note(const std::string& line) override { return Printable(line) + "\n"; }

 private:
  struct Shown {
    std::string status;
    std::string line;
    double seconds = 0;
  };
  std::map<std::string, Shown> shown_;
};

}  // namespace

void RateMeter::Add(double seconds, const v1::Experiment& experiment) {
  const int64_t measured = experiment.tasks_done() - experiment.tasks_reused();
  if (!points_.empty() && measured < points_.back().second) {
    points_.clear();
  }
  points_.emplace_back(seconds, measured);
  // The point before the minute stays, so that the window is never shorter than it could be.
  while (points_.size() > 2 && seconds - points_[1].first >= kRateSeconds) {
    points_.pop_front();
  }
}

double RateMeter::rate() const {
  if (points_.size() < 2) {
    return -1;
  }
  const double seconds = points_.back().first - points_.front().first;
  return seconds < 1 ? -1 : static_cast<double>(points_.back().second - points_.front().second) / seconds;
}

void WatchedExperiments::Update(const v1::WatchEvent& event, double seconds) {
  for (const v1::Experiment& experiment : event.experiments()) {
    const auto known =
        std::find_if(experiments_.begin(), experiments_.end(),
                     [&](const v1::Experiment& other) { return other.id() == experiment.id(); });
    if (known == experiments_.end()) {
      experiments_.push_back(experiment);
    } else {
      *known = experiment;
    }
    meters_[experiment.id()].Add(seconds, experiment);
  }
}

double WatchedExperiments::rate(const std::string& id) const {
  const auto meter = meters_.find(id);
  return meter == meters_.end() ? -1 : meter->second.rate();
}

bool WatchedExperiments::AllFinal() const {
  return !experiments_.empty() && std::all_of(experiments_.begin(), experiments_.end(), IsFinal);
}

bool WatchedExperiments::AllDone() const {
  return !experiments_.empty() && std::all_of(experiments_.begin(), experiments_.end(),
                                              [](const v1::Experiment& e) { return e.state() == "done"; });
}

std::unique_ptr<ProgressView> MakeTerminalProgress(int64_t width) {
  return std::make_unique<TerminalProgress>(width);
}
std::unique_ptr<ProgressView> MakeLineProgress() {
  return std::make_unique<LineProgress>();
}

}  // namespace ropelab::client
