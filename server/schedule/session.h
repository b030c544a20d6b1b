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

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace ropelab::schedule {

enum class SessionState { kGreeting, kActive, kDraining, kClosed };

// Whether `from` may become `to`. Nothing leaves Closed, and no state moves to itself.
bool IsLegalMove(SessionState from, SessionState to);
std::string_view NameOf(SessionState state);

// What Hello says, as far as placement needs it.
struct SessionFacts {
  int64_t epoch = 0;  // the server's counter; a greater one is newer
  std::string worker, incarnation, numerics_class;
  // Hash -> the name under which the worker announced such a model, by weights and by tokenizer.
  std::map<std::string, std::string> models = {}, tokenizers = {};
  std::set<std::string> unhashed = {};  // names of models whose weights hash is not known yet
  int64_t memory_bytes = 0;             // that models and activations may use; 0: not told

  // The name of a model here that a task with these hashes can run on: weights decide; a task without any
  // needs its tokenizer alone. nullptr: there is none. A task without either needs no model.
  const std::string* ModelFor(const std::string& weights_hash, const std::string& tokenizer_hash) const;
};

struct Session {
  SessionFacts facts;
  SessionState state = SessionState::kActive;
  int64_t heard_ns = 0;  // monotonic time of the last message
};

}  // namespace ropelab::schedule
