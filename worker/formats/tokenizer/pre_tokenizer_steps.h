// The steps that pre-tokenizers are made of.
#pragma once

#include <memory>
#include <string>

#include "worker/formats/tokenizer/pre_tokenizer.h"
#include "worker/formats/tokenizer/split_behavior.h"

namespace ropelab::formats {

// Cuts each piece where `pattern` matches.
class SplitStep : public PreTokenizer::Step {
 public:
  SplitStep(std::shared_ptr<const SplitPattern> pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}
  absl::Status Apply(CutText& cut) const override;

 private:
  const std::shared_ptr<const SplitPattern> pattern_;
  const SplitBehavior behavior_;
  const bool invert_;
};

// Puts `prefix` before each piece that does not start with it; with `first_only` before the one at the start
// of the whole text alone. Spaces become `replacement` before that, unless it is empty.
class PrefixStep : public PreTokenizer::Step {
 public:
  PrefixStep(std::string prefix, bool first_only, std::string replacement)
      : prefix_(std::move(prefix)), first_only_(first_only), replacement_(std::move(replacement)) {}
  absl::Status Apply(CutText& cut) const override;

 private:
  const std::string prefix_;  // empty: none
  const bool first_only_;
  const std::string replacement_;
};

// Spells each byte as its character of the byte alphabet.
class SpellStep : public PreTokenizer::Step {
 public:
  absl::Status Apply(CutText& cut) const override;
  bool spells_bytes() const override { return true; }
};

}  // namespace ropelab::formats
