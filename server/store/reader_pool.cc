#include "server/store/reader_pool.h"

#include <utility>

namespace ropelab::store {
namespace {

constexpr size_t kKept = 8;

}  // namespace

ReaderPool::ReaderPool(std::string path) : path_(std::move(path)) {}

absl::StatusOr<Connection> ReaderPool::Borrow() {
  {
    MutexLock lock(&mutex_);
    if (closed_) return absl::UnavailableError("the store is closed: the server is stopping");
    if (!idle_.empty()) {
      Connection connection = std::move(idle_.back());
      idle_.pop_back();
      return connection;
    }
  }
  return Connection::Open(path_, Connection::Mode::kReadOnly);
}

void ReaderPool::GiveBack(Connection connection) {
  MutexLock lock(&mutex_);
  if (!closed_ && idle_.size() < kKept) idle_.push_back(std::move(connection));
}

void ReaderPool::Close() {
  MutexLock lock(&mutex_);
  closed_ = true;
  idle_.clear();
}

}  // namespace ropelab::store
