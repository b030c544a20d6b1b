// Follows an experiment or a study to its end, across restarts of the server.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "client/connection.h"
#include "ropelab/v1/experiment_service.pb.h"

namespace ropelab::client {

struct Patience {
  std::chrono::milliseconds gone{60000};     // how long the server may be away
  std::chrono::milliseconds silence{20000};  // the server speaks at least every 5 s while it is well
};

struct WatchHooks {
  // An event; false ends the watch, as after a final one.
  std::function<bool(const v1::WatchEvent& event)> event;
  std::function<void(const absl::Status& cause)> lost;  // once per outage
};

// Reconnects with back-off until the server has been gone for `patience.gone`; the present state is then sent
// anew. OK once a final event was handed on. Otherwise the server's refusal, or what kept it from being
// reached.
absl::Status Watch(Connection* connection, const std::string& id, const Patience& patience,
                   const WatchHooks& hooks);

// Calls again while the server is unreachable, with a fresh channel now and then, for at most `patience`.
absl::Status CallPatiently(Connection* connection, std::chrono::milliseconds patience,
                           const std::function<absl::Status()>& call,
                           const std::function<void(const absl::Status& cause)>& lost);

}  // namespace ropelab::client
