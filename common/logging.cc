#include "common/logging.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "common/mutex.h"
#include "common/printable.h"

namespace ropelab {
namespace {

constexpr size_t kTailLines = 50;
constexpr size_t kLineBytes = 8000;
constexpr char kPattern[] = "%Y-%m-%dT%H:%M:%S.%eZ %l %v";

// One record, one line: what came from elsewhere (names, causes) can neither add records nor steer a
// terminal.
class OneLineFormatter : public spdlog::formatter {
 public:
  explicit OneLineFormatter(std::string pattern)
      : pattern_(std::move(pattern)), inner_(pattern_, spdlog::pattern_time_type::utc, "") {}
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& to) override {
    spdlog::memory_buf_t text;
    inner_.format(message, text);
    const std::string shown = Printable(std::string_view(text.data(), text.size()), kLineBytes);
    for (const char c : shown) {
      if (c == '\n') {
        to.append(std::string_view("\\n"));
      } else {
        to.push_back(c);
      }
    }
    to.push_back('\n');
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<OneLineFormatter>(pattern_);
  }

 private:
  const std::string pattern_;
  spdlog::pattern_formatter inner_;
};

// Keeps the newest lines until they are taken.
class TailSink : public spdlog::sinks::sink {
 public:
  void log(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t text;
    MutexLock lock(&mutex_);
    formatter_->format(message, text);
    std::string line(text.data(), text.size());
    while (!line.empty() && line.back() == '\n') {
      line.pop_back();
    }
    lines_.push_back(std::move(line));
    if (lines_.size() > kTailLines) {
      lines_.pop_front();
    }
  }
  void flush() override {}
  void set_pattern(const std::string& pattern) override {
    set_formatter(std::make_unique<spdlog::pattern_formatter>(pattern, spdlog::pattern_time_type::utc));
  }
  void set_formatter(std::unique_ptr<spdlog::formatter> formatter) override {
    MutexLock lock(&mutex_);
    formatter_ = std::move(formatter);
  }
  std::vector<std::string> Take() {
    MutexLock lock(&mutex_);
    std::vector<std::string> taken(lines_.begin(), lines_.end());
    lines_.clear();
    return taken;
  }

 private:
  Mutex mutex_;
  std::unique_ptr<spdlog::formatter> formatter_ ROPELAB_GUARDED_BY(mutex_) =
      std::make_unique<spdlog::pattern_formatter>();
  std::deque<std::string> lines_ ROPELAB_GUARDED_BY(mutex_);
};

const std::shared_ptr<TailSink>& Tail() {
  static const auto& sink = *new std::shared_ptr<TailSink>(std::make_shared<TailSink>());
  return sink;
}

}  // namespace

void InitializeLogging() {
  auto logger = std::make_shared<spdlog::logger>(
      "", spdlog::sinks_init_list{std::make_shared<spdlog::sinks::stderr_sink_mt>(), Tail()});
  logger->set_formatter(std::make_unique<OneLineFormatter>(kPattern));
  logger->flush_on(spdlog::level::trace);
  const char* level = std::getenv("ROPELAB_LOG");
  logger->set_level(level == nullptr ? spdlog::level::info : spdlog::level::from_str(level));
  spdlog::set_default_logger(std::move(logger));
}

std::vector<std::string> TakeLogTail() {
  return Tail()->Take();
}

}  // namespace ropelab
