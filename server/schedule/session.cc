#include "server/schedule/session.h"

namespace ropelab::schedule {

bool IsLegalMove(SessionState from, SessionState to) {
  switch (from) {
    case SessionState::kGreeting:
      return to == SessionState::kActive || to == SessionState::kClosed;
    case SessionState::kActive:
      return to == SessionState::kDraining || to == SessionState::kClosed;
    case SessionState::kDraining:
      return to == SessionState::kClosed;
    case SessionState::kClosed:
      return false;
  }
  return false;
}

std::string_view NameOf(SessionState state) {
  switch (state) {
    case SessionState::kGreeting:
      return "greeting";
    case SessionState::kActive:
      return "active";
    case SessionState::kDraining:
      return "draining";
    case SessionState::kClosed:
      return "closed";
  }
  return "unknown";
}

const std::string* SessionFacts::ModelFor(const std::string& weights_hash,
                                          const std::string& tokenizer_hash) const {
  const auto& names = weights_hash.empty() ? tokenizers : models;
  const auto found = names.find(weights_hash.empty() ? tokenizer_hash : weights_hash);
  return found == names.end() ? nullptr : &found->second;
}

}  // namespace ropelab::schedule
