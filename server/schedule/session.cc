#include "server/schedule/session.h"

namespace ropelab::schedule {
namespace {

bool Agrees(const std::string& needed, const std::string& held) {
  return needed.empty() || needed == held;
}

}  // namespace

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

bool SessionModel::Serves(const ModelNeeds& needs) const {
  return Agrees(needs.weights_hash, weights_hash) && Agrees(needs.config_hash, config_hash) &&
         Agrees(needs.tokenizer_hash, tokenizer_hash);
}

bool SessionModel::MayServe(const ModelNeeds& needs, const std::string& planned_for) const {
  const bool may_hold = weights_hash.empty() && !cannot_hash && name == planned_for;
  return Serves(may_hold ? ModelNeeds{"", needs.config_hash, needs.tokenizer_hash} : needs);
}

const SessionModel* SessionFacts::ModelFor(const ModelNeeds& needs, const std::string& planned_for) const {
  const SessionModel* found = nullptr;
  for (const SessionModel& model : models) {
    if (model.Serves(needs) && (found == nullptr || model.name == planned_for)) {
      found = &model;
    }
  }
  return found;
}

}  // namespace ropelab::schedule
