// PCRE2 over texts of symbols (one byte each, see class_alphabet.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;
struct pcre2_real_match_context_8;
struct pcre2_real_jit_stack_8;

namespace ropelab::formats {

// What one search writes into. A thread has its own.
class SymbolScratch {
 public:
  static SymbolScratch& OfThisThread();
  SymbolScratch(const SymbolScratch&) = delete;
  SymbolScratch& operator=(const SymbolScratch&) = delete;
  ~SymbolScratch();

  // Begins a text: room for `size` symbols, until the next call.
  uint8_t* Symbols(size_t size);

 private:
  friend class SymbolMatcher;
  SymbolScratch();
  std::unique_ptr<uint8_t[]> symbols_;
  size_t capacity_ = 0;
  int costly_starts_left_ = 0;
  pcre2_real_match_data_8* match_data_;
  pcre2_real_match_context_8* context_;
  pcre2_real_jit_stack_8* jit_stack_;
};

// Immutable; safe to share between threads.
class SymbolMatcher {
 public:
  enum class Outcome { kFound, kNone, kGaveUp };

  // INVALID_ARGUMENT with PCRE2's message.
  static absl::StatusOr<SymbolMatcher> Make(const std::string& pattern);

  // The first match at or after `at`, as [begin, end). The steps of all searches of a text together are
  // bounded by a multiple of its length: gives up when too many places cost many steps and lead to no long
  // match, or when the matcher's stack is full.
  Outcome Find(std::span<const uint8_t> text, size_t at, SymbolScratch& scratch, size_t& begin,
               size_t& end) const;

 private:
  struct Code {
    std::shared_ptr<const pcre2_real_code_8> compiled;
    bool jit = false;
    // PCRE2's answer: 1 for a match.
    int Run(std::span<const uint8_t> text, size_t at, size_t steps_of_a_start, SymbolScratch& scratch) const;
  };
  static absl::StatusOr<Code> Compile(const std::string& pattern, uint32_t options);
  SymbolMatcher(Code search, Code here) : search_(std::move(search)), here_(std::move(here)) {}

  Code search_;
  Code here_;  // matches at the place given or not at all
};

}  // namespace ropelab::formats
