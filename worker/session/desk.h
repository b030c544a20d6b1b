// The session's machine, shared by its threads: the lock, and one condition for everything that may have
// moved.
#pragma once

#include "common/mutex.h"
#include "worker/session/session_machine.h"

namespace ropelab::session {

struct Desk {
  explicit Desk(const SessionMachine::Options& options) : machine(options) {}
  Mutex mutex;
  CondVar changed;
  SessionMachine machine ROPELAB_GUARDED_BY(mutex);
  bool stopping ROPELAB_GUARDED_BY(mutex) = false;  // the process is about to end
};

}  // namespace ropelab::session
