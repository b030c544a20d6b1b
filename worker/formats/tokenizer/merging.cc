#include "worker/formats/tokenizer/merging.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace ropelab::formats {
namespace {

constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
constexpr size_t kShort = 32;  // below it looking at every pair is faster than a heap

Merge Pair(const BpeModel& model, const Symbol& left, const Symbol& right) {
  const Merge* merge = model.Find(left.id, right.id);
  return merge == nullptr ? Merge{kNone, -1} : *merge;
}

}  // namespace

void Merger::Run(const BpeModel& model, std::vector<Symbol>& symbols) {
  if (symbols.size() < 2) return;
  if (symbols.size() < kShort) {
    RunShort(model, symbols);
  } else {
    RunLong(model, symbols);
  }
}

void Merger::RunShort(const BpeModel& model, std::vector<Symbol>& symbols) {
  size_t count = symbols.size();
  pairs_.resize(count - 1);
  for (size_t k = 0; k + 1 < count; ++k) pairs_[k] = Pair(model, symbols[k], symbols[k + 1]);
  while (count > 1) {
    size_t best = 0;
    for (size_t k = 1; k + 1 < count; ++k) {
      if (pairs_[k].rank < pairs_[best].rank) best = k;
    }
    if (pairs_[best].rank == kNone) break;
    symbols[best].id = pairs_[best].id;
    symbols[best].end = symbols[best + 1].end;
    std::move(symbols.begin() + static_cast<ptrdiff_t>(best) + 2,
              symbols.begin() + static_cast<ptrdiff_t>(count),
              symbols.begin() + static_cast<ptrdiff_t>(best) + 1);
    std::move(pairs_.begin() + static_cast<ptrdiff_t>(best) + 1,
              pairs_.begin() + static_cast<ptrdiff_t>(count) - 1,
              pairs_.begin() + static_cast<ptrdiff_t>(best));
    --count;
    if (best + 1 < count) pairs_[best] = Pair(model, symbols[best], symbols[best + 1]);
    if (best > 0) pairs_[best - 1] = Pair(model, symbols[best - 1], symbols[best]);
  }
  symbols.resize(count);
}

// A list linked by indices and a heap of (rank, place). An entry is stale when its place has another pair by
// now: a pair's text only grows, so equal rank means the same pair.
void Merger::RunLong(const BpeModel& model, std::vector<Symbol>& symbols) {
  const auto count = static_cast<uint32_t>(symbols.size());
  pairs_.assign(count, Merge{kNone, -1});
  previous_.resize(count);
  next_.resize(count);
  heap_.clear();
  const auto entry = [&](uint32_t k) { return static_cast<uint64_t>(pairs_[k].rank) << 32 | k; };
  for (uint32_t k = 0; k < count; ++k) {
    previous_[k] = k - 1;  // kNone for the first
    next_[k] = k + 1 < count ? k + 1 : kNone;
    if (k + 1 == count) continue;
    pairs_[k] = Pair(model, symbols[k], symbols[k + 1]);
    if (pairs_[k].rank != kNone) heap_.push_back(entry(k));
  }
  std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
  const auto renew = [&](uint32_t k) {
    pairs_[k] = next_[k] == kNone ? Merge{kNone, -1} : Pair(model, symbols[k], symbols[next_[k]]);
    if (pairs_[k].rank == kNone) return;
    heap_.push_back(entry(k));
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  };
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    const auto rank = static_cast<uint32_t>(heap_.back() >> 32);
    const auto place = static_cast<uint32_t>(heap_.back());
    heap_.pop_back();
    if (pairs_[place].rank != rank) continue;
    const uint32_t gone = next_[place];
    symbols[place].id = pairs_[place].id;
    symbols[place].end = symbols[gone].end;
    pairs_[gone] = Merge{kNone, -1};
    next_[place] = next_[gone];
    if (next_[place] != kNone) previous_[next_[place]] = place;
    renew(place);
    if (previous_[place] != kNone) renew(previous_[place]);
  }
  // The first symbol is never merged into another one, so the list starts at 0; what remains moves down.
  uint32_t kept = 0;
  for (uint32_t k = 0; k != kNone; k = next_[k]) symbols[kept++] = symbols[k];
  symbols.resize(kept);
}

}  // namespace ropelab::formats
