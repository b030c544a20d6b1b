#include "common/logging.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <deque>
#include <memory>
#include <string>

#include "common/mutex.h"

namespace ropelab {
namespace {

constexpr size_t kTailLines = 50;

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
  logger->set_formatter(std::make_unique<spdlog::pattern_formatter>("%Y-%m-%dT%H:%M:%S.%eZ %l %v",
                                                                    spdlog::pattern_time_type::utc));
  logger->flush_on(spdlog::level::trace);
  const char* level = std::getenv("ROPELAB_LOG");
  logger->set_level(level == nullptr ? spdlog::level::info : spdlog::level::from_str(level));
  spdlog::set_default_logger(std::move(logger));
}

std::vector<std::string> TakeLogTail() {
  return Tail()->Take();
}

}  // namespace ropelab
