// The life of one worker session, from the stream's first message to its end.
//
//   Greeting --> Active --> Draining
//       \          |          /
//        `---->  Closed  <---'
//
// Greeting: the stream is open, Hello was not answered yet. Active: may be granted work. Draining: finishes
// or hands back, gets no new work. Closed: every later message of its epoch is refused; its leases wait for
// the worker to come back until they expire.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ropelab::schedule {

enum class SessionState { kGreeting, kActive, kDraining, kClosed };

// Whether `from` may become `to`. Nothing leaves Closed, and no state moves to itself.
bool IsLegalMove(SessionState from, SessionState to);
std::string_view NameOf(SessionState state);

// What a task must find in one model of a worker; an empty hash: any will do. A task that measures weights
// names them and their config; one that turns text into token ids names the tokenizer, and only such a one
// does: token ids that are given or drawn uniformly are the same whatever tokenizer lies beside the weights.
// So no worker is offered what it must refuse, and none is passed over for what it need not read.
struct ModelNeeds {
  std::string weights_hash = {}, config_hash = {}, tokenizer_hash = {};

  auto operator<=>(const ModelNeeds&) const = default;
  bool none() const { return *this == ModelNeeds(); }  // no model at all
};

// A model that a worker announced and can load.
struct SessionModel {
  std::string name;
  std::string weights_hash;  // empty: not hashed yet
  std::string config_hash = {}, tokenizer_hash = {};
  bool cannot_hash = false;  // the worker tried in vain

  bool Serves(const ModelNeeds& needs) const;
  // Serves, or may turn out to once its weights are hashed; `name`: of the model that the task was planned
  // for.
  bool MayServe(const ModelNeeds& needs, const std::string& name) const;
};

// What Hello says, as far as placement needs it.
struct SessionFacts {
  int64_t epoch = 0;  // the server's counter; a greater one is newer
  std::string worker, incarnation, numerics_class;
  std::vector<SessionModel> models = {};
  int64_t memory_bytes = 0;  // that models and activations may use; 0: not told

  // A model that has all of it, the one of this name where several have; nullptr: none does.
  const SessionModel* ModelFor(const ModelNeeds& needs, const std::string& planned_for = "") const;
};

struct Session {
  SessionFacts facts;
  SessionState state = SessionState::kActive;
  int64_t heard_ns = 0;  // monotonic time of the last message
};

}  // namespace ropelab::schedule
