// What a tokenizer changes in a text before it looks at it.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/formats/tokenizer/json_fields.h"
#include "worker/formats/tokenizer/normalized_text.h"
#include "worker/formats/tokenizer/split_pattern.h"

namespace ropelab::formats {

class Normalizer {
 public:
  // Reads "normalizer": null, Sequence, Prepend, Replace, NFC. INVALID_ARGUMENT names what is not built.
  static absl::StatusOr<Normalizer> Read(const nlohmann::json* json);

  // RESOURCE_EXHAUSTED when a pattern gives up.
  absl::Status Apply(NormalizedText& text) const;

  class Step {
   public:
    virtual ~Step() = default;
    virtual absl::Status Apply(NormalizedText& text) const = 0;
  };

 private:
  std::vector<std::shared_ptr<const Step>> steps_;
};

// {"String": "..."} or {"Regex": "..."} in the field "pattern".
absl::StatusOr<std::shared_ptr<const SplitPattern>> ReadPattern(JsonFields& fields);

}  // namespace ropelab::formats
