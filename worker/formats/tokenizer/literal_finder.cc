#include "worker/formats/tokenizer/literal_finder.h"

#include <deque>

namespace ropelab::formats {
namespace {

uint64_t EdgeKey(uint32_t state, char byte) {
  return static_cast<uint64_t>(state) << 8 | static_cast<unsigned char>(byte);
}

}  // namespace

LiteralFinder::LiteralFinder(const std::vector<std::string>& literals) : states_(1) {
  from_root_.fill(kNone);
  for (size_t k = 0; k < literals.size(); ++k) AddLiteral(literals[k], static_cast<uint32_t>(k));
  LinkFallbacks();
}

uint32_t LiteralFinder::Step(uint32_t state, char byte) const {
  if (state == 0) return from_root_[static_cast<unsigned char>(byte)];
  const auto found = edges_.find(EdgeKey(state, byte));
  return found == edges_.end() ? kNone : found->second;
}

void LiteralFinder::AddLiteral(const std::string& text, uint32_t literal) {
  uint32_t state = 0;
  for (const char byte : text) {
    uint32_t next = Step(state, byte);
    if (next == kNone) {
      next = static_cast<uint32_t>(states_.size());
      states_.push_back({.depth = states_[state].depth + 1});
      if (state == 0) {
        from_root_[static_cast<unsigned char>(byte)] = next;
      } else {
        edges_[EdgeKey(state, byte)] = next;
      }
    }
    state = next;
  }
  if (states_[state].literal == kNone) states_[state].literal = literal;
}

// Breadth first: a state's fallback is shallower than the state.
void LiteralFinder::LinkFallbacks() {
  std::vector<std::vector<std::pair<char, uint32_t>>> children(states_.size());
  for (const auto& [key, next] : edges_) children[key >> 8].emplace_back(static_cast<char>(key & 0xFF), next);
  std::deque<uint32_t> queue;
  for (const uint32_t state : from_root_) {
    if (state != kNone) queue.push_back(state);
  }
  while (!queue.empty()) {
    const uint32_t state = queue.front();
    queue.pop_front();
    State& here = states_[state];
    here.nearest = here.literal != kNone ? state : states_[here.fallback].nearest;
    for (const auto& [byte, child] : children[state]) {
      uint32_t from = here.fallback;
      uint32_t next = Step(from, byte);
      while (next == kNone && from != 0) {
        from = states_[from].fallback;
        next = Step(from, byte);
      }
      states_[child].fallback = next == kNone ? 0 : next;
      queue.push_back(child);
    }
  }
}

std::optional<LiteralFinder::Match> LiteralFinder::Find(std::string_view text, size_t from) const {
  std::optional<Match> best;
  uint32_t state = 0;
  for (size_t at = from; at < text.size(); ++at) {
    uint32_t next = Step(state, text[at]);
    while (next == kNone && state != 0) {
      state = states_[state].fallback;
      next = Step(state, text[at]);
    }
    state = next == kNone ? 0 : next;
    const size_t end = at + 1;
    // What is still open starts here or later: nothing better than a match that starts before.
    if (best && end - states_[state].depth > best->begin) return best;
    const uint32_t literal = states_[state].nearest;
    if (literal == kNone) continue;
    const size_t begin = end - states_[literal].depth;
    if (!best || begin <= best->begin) best = Match{begin, end, states_[literal].literal};
  }
  return best;
}

}  // namespace ropelab::formats
