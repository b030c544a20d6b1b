#include "client/watch.h"

#include <algorithm>
#include <random>
#include <thread>

namespace ropelab::client {
namespace {

using SteadyClock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// How long the server has been away, and how long to wait before the next try.
class Outage {
 public:
  Outage(Connection* connection, milliseconds patience) : connection_(connection), patience_(patience) {}

  void Heard() {
    heard_ = SteadyClock::now();
    failures_ = 0;
  }
  bool first() const { return failures_ == 0; }

  // Waits; false when patience is at its end. A channel that failed often is replaced: it may hold on to a
  // dead route.
  bool WaitForNextTry() {
    const auto left = std::chrono::duration_cast<milliseconds>(heard_ + patience_ - SteadyClock::now());
    if (left <= milliseconds(0)) {
      return false;
    }
    const milliseconds longest =
        std::min(milliseconds(2000), milliseconds(100) * (1 << std::min(failures_, 5)));
    std::uniform_int_distribution<int64_t> jitter(longest.count() / 2, longest.count());
    std::this_thread::sleep_for(std::min(milliseconds(jitter(random_)), left));
    if (++failures_ % 4 == 0) {
      connection_->Renew();
    }
    return true;
  }

 private:
  Connection* connection_;
  milliseconds patience_;
  SteadyClock::time_point heard_ = SteadyClock::now();
  int failures_ = 0;
  std::minstd_rand random_{std::random_device{}()};
};

// A broken connection shows under several codes, depending on the moment at which it broke.
bool MayHeal(const absl::Status& status) {
  return IsUnreachable(status) || absl::IsInternal(status) || absl::IsUnknown(status) ||
         absl::IsAborted(status);
}

}  // namespace

absl::Status Watch(Connection* connection, const std::string& id, const Patience& patience,
                   const WatchHooks& hooks) {
  v1::WatchRequest request;
  request.set_id(id);
  Outage outage(connection, patience.gone);
  while (true) {
    absl::Status status;
    {
      const auto stream = connection->Open(&Connection::Stub::AsyncWatch, request);
      v1::WatchEvent event;
      while (stream->Next(&event, patience.silence)) {
        outage.Heard();
        if (!hooks.event(event)) {
          return absl::OkStatus();
        }
      }
      status = stream->status();
    }
    if (status.ok()) {
      status = FromServer(grpc::Status(grpc::StatusCode::UNAVAILABLE, ""), connection->server());
    }
    if (!MayHeal(status)) {
      return status;
    }
    if (outage.first()) {
      hooks.lost(status);
    }
    if (!outage.WaitForNextTry()) {
      return status;
    }
  }
}

absl::Status CallPatiently(Connection* connection, milliseconds patience,
                           const std::function<absl::Status()>& call,
                           const std::function<void(const absl::Status& cause)>& lost) {
  Outage outage(connection, patience);
  while (true) {
    const absl::Status status = call();
    if (!IsUnreachable(status)) {
      return status;
    }
    if (outage.first()) {
      lost(status);
    }
    if (!outage.WaitForNextTry()) {
      return status;
    }
  }
}

}  // namespace ropelab::client
