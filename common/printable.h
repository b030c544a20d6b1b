// Text that came from elsewhere (a worker, a file, a library) and is shown to people, logged or put into a
// message.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ropelab {

// Well-formed UTF-8, shortest forms only, no surrogates.
bool IsUtf8(std::string_view text);
// Where the first byte stands that is no part of such text; text.size() where there is none.
size_t FirstNonUtf8(std::string_view text);

// UTF-8 without control characters.
bool IsPlainText(std::string_view text);

// `text` with "?" for each byte that is not UTF-8 and for each control character but line ends and tabs. What
// is longer than `most` bytes is cut at a character's start and ends in "...". Protobuf strings that are not
// UTF-8 would make the whole message unreadable to its receiver.
std::string Printable(std::string_view text, size_t most);

}  // namespace ropelab
