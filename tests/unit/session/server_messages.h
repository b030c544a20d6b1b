// What a server says to a session, as tests play it.
#pragma once

#include <cstdint>

#include "ropelab/v1/worker_service.pb.h"

namespace ropelab::session {

inline v1::LeaseToken Token(int64_t task, int64_t attempt, int64_t epoch) {
  v1::LeaseToken token;
  token.set_task(task);
  token.set_attempt(attempt);
  token.set_session_epoch(epoch);
  return token;
}

inline v1::ServerMessage Welcome(int64_t epoch, int64_t lease_ms = 3000) {
  v1::ServerMessage message;
  v1::Welcome* welcome = message.mutable_welcome();
  welcome->set_protocol(1);
  welcome->set_session_epoch(epoch);
  welcome->set_heartbeat_milliseconds(lease_ms / 6);
  welcome->set_lease_milliseconds(lease_ms);
  return message;
}

inline v1::ServerMessage Grant(const v1::LeaseToken& token, int64_t resume_after = 0, bool ahead = false) {
  v1::ServerMessage message;
  *message.mutable_grant()->mutable_token() = token;
  message.mutable_grant()->set_resume_after(resume_after);
  message.mutable_grant()->set_ahead(ahead);
  message.mutable_grant()->mutable_measurement()->mutable_rope_geometry();
  return message;
}

inline v1::ServerMessage Ack(const v1::LeaseToken& token, int64_t sequence) {
  v1::ServerMessage message;
  *message.mutable_acknowledgement()->mutable_token() = token;
  message.mutable_acknowledgement()->set_sequence(sequence);
  return message;
}

}  // namespace ropelab::session
