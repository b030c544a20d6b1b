#include "worker/session/stop_signals.h"

#include <pthread.h>
#include <signal.h>

#include <cstdlib>
#include <thread>
#include <utility>

#include "spdlog/spdlog.h"

namespace ropelab::session {
namespace {

sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

}  // namespace

void BlockStopSignals() {
  const sigset_t signals = StopSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

void OnStopSignals(std::function<void()> drain) {
  std::thread([drain = std::move(drain)] {
    const sigset_t signals = StopSignals();
    int signal = 0;
    sigwait(&signals, &signal);
    spdlog::info("signal {}: draining; once more ends at once", signal);
    drain();
    sigwait(&signals, &signal);
    std::_Exit(128 + signal);
  }).detach();
}

}  // namespace ropelab::session
