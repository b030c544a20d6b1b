#define PCRE2_CODE_UNIT_WIDTH 8
#include "worker/formats/tokenizer/split_pattern_matcher.h"

#include <pcre2.h>

#include <algorithm>
#include <limits>
#include <new>

#include "common/status_macros.h"

namespace ropelab::formats {
namespace {

constexpr size_t kSmallestStack = 32 * 1024;
constexpr size_t kLargestStack = 64 * 1024 * 1024;
constexpr uint32_t kHeapKibibytes = 64 * 1024;  // for the interpreter, where a machine has no JIT
// Steps are what PCRE2 counts: rounds of repeated groups and alternatives taken back, not the characters that
// one repeated class runs over. The patterns of real tokenizers stay below kCheapSteps at any place of any
// text.
constexpr size_t kCheapSteps = 1000;
// Without JIT, PCRE2 also counts each character that a repeated class gives back.
constexpr size_t kCheapStepsWithoutJit = 100000;
constexpr size_t kStepsPerSymbol = 16;
constexpr size_t kLeastCostlySteps = 1000000;
constexpr int kCostlyStarts = 16;
constexpr size_t kKeptSymbols = 4 * 1024 * 1024;

}  // namespace

SymbolScratch& SymbolScratch::OfThisThread() {
  thread_local SymbolScratch scratch;
  return scratch;
}

SymbolScratch::SymbolScratch()
    : match_data_(pcre2_match_data_create(1, nullptr)),
      context_(pcre2_match_context_create(nullptr)),
      jit_stack_(pcre2_jit_stack_create(kSmallestStack, kLargestStack, nullptr)) {
  if (match_data_ == nullptr || context_ == nullptr) throw std::bad_alloc();
  // Without a stack of its own (none on a machine without JIT) the matcher uses 32 KiB of the thread's.
  if (jit_stack_ != nullptr) pcre2_jit_stack_assign(context_, nullptr, jit_stack_);
  pcre2_set_heap_limit(context_, kHeapKibibytes);
}

SymbolScratch::~SymbolScratch() {
  pcre2_match_data_free(match_data_);
  pcre2_match_context_free(context_);
  if (jit_stack_ != nullptr) pcre2_jit_stack_free(jit_stack_);
}

uint8_t* SymbolScratch::Symbols(size_t size) {
  if (size > capacity_ || (capacity_ > kKeptSymbols && size <= kKeptSymbols)) {
    capacity_ = std::max<size_t>(size, 4096);
    symbols_.reset(new uint8_t[capacity_]);
  }
  costly_starts_left_ = kCostlyStarts;
  return symbols_.get();
}

absl::StatusOr<SymbolMatcher::Code> SymbolMatcher::Compile(const std::string& pattern, uint32_t options) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* const compiled = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                             options, &error, &offset, nullptr);
  if (compiled == nullptr) {
    unsigned char message[256] = {};
    pcre2_get_error_message(error, message, sizeof(message));
    return absl::InvalidArgumentError(reinterpret_cast<const char*>(message));
  }
  Code code;
  code.jit = pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE) == 0;
  code.compiled.reset(compiled,
                      [](const pcre2_code* owned) { pcre2_code_free(const_cast<pcre2_code*>(owned)); });
  return code;
}

absl::StatusOr<SymbolMatcher> SymbolMatcher::Make(const std::string& pattern) {
  ROPELAB_ASSIGN_OR_RETURN(Code search, Compile(pattern, 0));
  ROPELAB_ASSIGN_OR_RETURN(Code here, Compile(pattern, PCRE2_ANCHORED));
  return SymbolMatcher(std::move(search), std::move(here));
}

int SymbolMatcher::Code::Run(std::span<const uint8_t> text, size_t at, size_t steps_of_a_start,
                             SymbolScratch& scratch) const {
  constexpr size_t kMost = std::numeric_limits<uint32_t>::max();
  pcre2_set_match_limit(scratch.context_, static_cast<uint32_t>(std::min(steps_of_a_start, kMost)));
  const auto run = jit ? pcre2_jit_match : pcre2_match;
  return run(compiled.get(), text.data(), text.size(), at, 0, scratch.match_data_, scratch.context_);
}

SymbolMatcher::Outcome SymbolMatcher::Find(std::span<const uint8_t> text, size_t at, SymbolScratch& scratch,
                                           size_t& begin, size_t& end) const {
  const PCRE2_SIZE* const ends = pcre2_get_ovector_pointer(scratch.match_data_);
  const size_t cheap = search_.jit ? kCheapSteps : kCheapStepsWithoutJit;
  int found = search_.Run(text, at, cheap, scratch);
  // Somewhere from `at` on the pattern takes many steps: go from place to place, and spend more where needed.
  const bool costly = found == PCRE2_ERROR_MATCHLIMIT;
  for (size_t start = at; costly && start < text.size(); ++start) {
    found = here_.Run(text, start, cheap, scratch);
    if (found == PCRE2_ERROR_MATCHLIMIT) {
      if (scratch.costly_starts_left_ == 0) return Outcome::kGaveUp;
      found = here_.Run(text, start, (text.size() - start) * kStepsPerSymbol + kLeastCostlySteps, scratch);
      // A long match pays for its steps: nobody looks at its characters again.
      if (found < 0 || ends[1] - ends[0] < kCheapSteps) --scratch.costly_starts_left_;
    }
    if (found != PCRE2_ERROR_NOMATCH) break;
  }
  if (found == PCRE2_ERROR_NOMATCH) return Outcome::kNone;
  if (found < 0) return Outcome::kGaveUp;
  begin = ends[0];
  end = ends[1];
  return Outcome::kFound;
}

}  // namespace ropelab::formats
