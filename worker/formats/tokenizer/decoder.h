// Tokens' texts to one text.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ropelab::formats {

class Decoder {
 public:
  // Reads "decoder": null, Sequence, ByteLevel, Replace, ByteFallback, Fuse, Strip, Metaspace.
  // INVALID_ARGUMENT names what is not built.
  static absl::StatusOr<Decoder> Read(const nlohmann::json* json);

  // Without a decoder the tokens are joined by spaces, as in the reference. RESOURCE_EXHAUSTED when a pattern
  // gives up.
  absl::StatusOr<std::string> Decode(std::vector<std::string> tokens) const;

  class Step {
   public:
    virtual ~Step() = default;
    virtual absl::Status Apply(std::vector<std::string>& tokens) const = 0;
  };

 private:
  std::vector<std::shared_ptr<const Step>> steps_;
  bool given_ = false;
};

}  // namespace ropelab::formats
