// PCRE2 over texts of symbols (one byte each, see class_alphabet.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

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

  // Room for `size` symbols, until the next call.
  uint8_t* Symbols(size_t size);

 private:
  friend class SymbolMatcher;
  SymbolScratch();
  std::unique_ptr<uint8_t[]> symbols_;
  size_t capacity_ = 0;
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

  // The first match at or after `at`, as [begin, end). Gives up after a number of steps that is a multiple of
  // the text's length, or when the matcher's stack is full.
  Outcome Find(std::span<const uint8_t> text, size_t at, SymbolScratch& scratch, size_t& begin,
               size_t& end) const;

 private:
  explicit SymbolMatcher(std::shared_ptr<const pcre2_real_code_8> code, bool jit)
      : code_(std::move(code)), jit_(jit) {}
  std::shared_ptr<const pcre2_real_code_8> code_;
  bool jit_;
};

}  // namespace ropelab::formats
