#include "worker/formats/mapped_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace ropelab::formats {
namespace {

// From the page that holds the first byte to the page that holds the last, that one included where `whole`.
void Advise(std::string_view bytes, bool whole, int advice) {
  if (bytes.empty()) return;
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data()) / page * page;
  uintptr_t end = reinterpret_cast<uintptr_t>(bytes.data()) + bytes.size();
  end = whole ? (end + page - 1) / page * page : end / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, advice);
}

}  // namespace

void GiveBackPages(std::string_view bytes) {
  // A page that the next bytes share stays until they are given back themselves.
  Advise(bytes, /*whole=*/false, MADV_DONTNEED);
}

void ReadAhead(std::string_view bytes) {
  Advise(bytes, /*whole=*/true, MADV_WILLNEED);
}

}  // namespace ropelab::formats
