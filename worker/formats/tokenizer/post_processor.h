// What is put around a text's tokens, and what is taken off their spans.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/formats/tokenizer/tokenizer.h"

namespace ropelab::formats {

struct PostProcessor {
  std::vector<int32_t> prefix, suffix;  // the template's tokens before and after a single text
  bool trim = false;                    // spans leave out the white space at both ends of a token
  bool trim_keeps_prefix = false;       // but not one leading space of the first token, which may be added
};

// Reads "post_processor": null, Sequence, ByteLevel, TemplateProcessing (its single form). `has` tells
// whether an id is a token's. INVALID_ARGUMENT names what is not built.
absl::StatusOr<PostProcessor> ReadPostProcessor(const nlohmann::json* json,
                                                const std::function<bool(int64_t)>& has);

// The span, in `text`, of a token spelled `token` in the byte alphabet, without a character for each of the
// token's spaces at both ends. `first`: of the text's first token.
TokenSpan TrimSpan(const PostProcessor& processor, std::string_view text, std::string_view token, bool first,
                   TokenSpan span);

}  // namespace ropelab::formats
