// What the kernel is told about pages of a mapped file, so that a checkpoint that is read once does not stay
// in this process's memory. Advice only: neither call can fail in a way that matters, and no byte changes.
#pragma once

#include <cstddef>
#include <string_view>

namespace ropelab::formats {

// Bytes that a reader of a mapping takes up before it gives them back: small beside a layer, large beside
// what a system call costs.
inline constexpr size_t kMappedChunk = size_t{8} << 20;

// `bytes` lie in a read-only mapping of a file. Their pages leave this process's resident memory; the page
// cache keeps what it likes, and a page that is touched again comes back.
void GiveBackPages(std::string_view bytes);

// `bytes` lie in a mapping of a file and are wanted soon: the kernel starts to read them from the disk.
void ReadAhead(std::string_view bytes);

}  // namespace ropelab::formats
