// A text that remembers which bytes of the original every one of its bytes came from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ropelab::formats {

// `origin` is empty while text and original are the same; else byte b of `text` came from the original's
// bytes [origin[b].begin, origin[b].end).
struct NormalizedText {
  struct Origin {
    uint32_t begin = 0, end = 0;
  };
  std::string text;
  std::vector<Origin> origin;
};

// Canonical composition on the reference's Unicode version; characters that it does not know stay as they
// are. True when something changed.
bool ComposeNfc(NormalizedText& text);

}  // namespace ropelab::formats
