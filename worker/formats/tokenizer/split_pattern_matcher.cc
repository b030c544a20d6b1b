#define PCRE2_CODE_UNIT_WIDTH 8
#include "worker/formats/tokenizer/split_pattern_matcher.h"

#include <pcre2.h>

#include <algorithm>
#include <limits>
#include <new>

namespace ropelab::formats {
namespace {

constexpr size_t kSmallestStack = 32 * 1024;
constexpr size_t kLargestStack = 64 * 1024 * 1024;
constexpr uint32_t kHeapKibibytes = 64 * 1024;  // for the interpreter, where a machine has no JIT
// A symbol that is read again and again by honest patterns is read a few times for each alternative.
constexpr size_t kStepsPerSymbol = 64;
constexpr size_t kLeastSteps = 1000000;
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
  return symbols_.get();
}

absl::StatusOr<SymbolMatcher> SymbolMatcher::Make(const std::string& pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* const compiled = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), 0,
                                             &error, &offset, nullptr);
  if (compiled == nullptr) {
    unsigned char message[256] = {};
    pcre2_get_error_message(error, message, sizeof(message));
    return absl::InvalidArgumentError(reinterpret_cast<const char*>(message));
  }
  const bool jit = pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE) == 0;
  return SymbolMatcher(std::shared_ptr<const pcre2_code>(
                           compiled, [compiled](const pcre2_code*) { pcre2_code_free(compiled); }),
                       jit);
}

SymbolMatcher::Outcome SymbolMatcher::Find(std::span<const uint8_t> text, size_t at, SymbolScratch& scratch,
                                           size_t& begin, size_t& end) const {
  const size_t steps = std::max(kLeastSteps, (text.size() - at) * kStepsPerSymbol);
  pcre2_set_match_limit(scratch.context_,
                        static_cast<uint32_t>(std::min<size_t>(steps, std::numeric_limits<uint32_t>::max())));
  const int found =
      jit_ ? pcre2_jit_match(code_.get(), text.data(), text.size(), at, 0, scratch.match_data_,
                             scratch.context_)
           : pcre2_match(code_.get(), text.data(), text.size(), at, 0, scratch.match_data_, scratch.context_);
  if (found == PCRE2_ERROR_NOMATCH) return Outcome::kNone;
  if (found < 0) return Outcome::kGaveUp;
  const PCRE2_SIZE* const ends = pcre2_get_ovector_pointer(scratch.match_data_);
  begin = ends[0];
  end = ends[1];
  return Outcome::kFound;
}

}  // namespace ropelab::formats
