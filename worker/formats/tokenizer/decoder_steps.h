// The steps that decoders are made of. Each maps the tokens' texts to new ones.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "worker/formats/tokenizer/decoder.h"
#include "worker/formats/tokenizer/split_pattern.h"

namespace ropelab::formats {

// One text of the bytes that the tokens spell; a token that spells none stands for itself. What is not UTF-8
// becomes U+FFFD.
class ByteLevelDecoding : public Decoder::Step {
 public:
  absl::Status Apply(std::vector<std::string>& tokens) const override;
};

// "<0xE2>", "<0x96>", "<0x81>" become the character; a run of bytes that is not UTF-8 becomes as many U+FFFD.
class ByteFallbackDecoding : public Decoder::Step {
 public:
  absl::Status Apply(std::vector<std::string>& tokens) const override;
};

// One text of them all.
class Fusing : public Decoder::Step {
 public:
  absl::Status Apply(std::vector<std::string>& tokens) const override;
};

// `content` for each match, in each token.
class Replacing : public Decoder::Step {
 public:
  Replacing(std::shared_ptr<const SplitPattern> pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  absl::Status Apply(std::vector<std::string>& tokens) const override;

 private:
  const std::shared_ptr<const SplitPattern> pattern_;
  const std::string content_;
};

// Takes at most `start` times `character` off the start of each token and at most `stop` times off its end.
class Stripping : public Decoder::Step {
 public:
  Stripping(std::string character, size_t start, size_t stop)
      : character_(std::move(character)), start_(start), stop_(stop) {}
  absl::Status Apply(std::vector<std::string>& tokens) const override;

 private:
  const std::string character_;
  const size_t start_, stop_;
};

// `mark` becomes a space; with `drop_first` each mark of the first token becomes nothing.
class MarkDecoding : public Decoder::Step {
 public:
  MarkDecoding(std::string mark, bool drop_first) : mark_(std::move(mark)), drop_first_(drop_first) {}
  absl::Status Apply(std::vector<std::string>& tokens) const override;

 private:
  const std::string mark_;
  const bool drop_first_;
};

}  // namespace ropelab::formats
