#include "worker/engine/shared_objects.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace ropelab::engine {
namespace {

// Alignment of notes is 4 also in 64-bit files.
size_t Padded(size_t size) {
  return (size + 3) & ~size_t{3};
}

std::string BuildId(const dl_phdr_info& object) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object.dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const char* at = reinterpret_cast<const char*>(object.dlpi_addr + segment.p_vaddr);
    const char* end = at + segment.p_memsz;
    while (at + sizeof(ElfW(Nhdr)) <= end) {
      ElfW(Nhdr) note;
      std::memcpy(&note, at, sizeof(note));
      const char* name = at + sizeof(note);
      const char* description = name + Padded(note.n_namesz);
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
        std::string hex;
        for (size_t b = 0; b < note.n_descsz; ++b) {
          absl::StrAppend(&hex, absl::Hex(static_cast<uint8_t>(description[b]), absl::kZeroPad2));
        }
        return hex;
      }
      at = description + Padded(note.n_descsz);
    }
  }
  return "none";
}

struct Search {
  std::function<bool(const dl_phdr_info&)> wanted;
  std::string found = "none";
};

int Visit(dl_phdr_info* object, size_t, void* context) {
  Search& search = *static_cast<Search*>(context);
  if (!search.wanted(*object)) return 0;
  const std::string path = object->dlpi_name;
  search.found = absl::StrCat(path.substr(path.rfind('/') + 1), " build-id ", BuildId(*object));
  return 1;
}

std::string Find(std::function<bool(const dl_phdr_info&)> wanted) {
  Search search{std::move(wanted)};
  dl_iterate_phdr(Visit, &search);
  return search.found;
}

bool Contains(const dl_phdr_info& object, uintptr_t address) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object.dlpi_phdr[i];
    const uintptr_t begin = object.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && address >= begin && address < begin + segment.p_memsz) return true;
  }
  return false;
}

}  // namespace

std::string ObjectOfSymbol(const char* symbol) {
  const void* address = dlsym(RTLD_DEFAULT, symbol);
  if (address == nullptr) return "none";
  return Find([address](const dl_phdr_info& object) {
    return Contains(object, reinterpret_cast<uintptr_t>(address));
  });
}

std::string LoadedObject(const std::string& prefix) {
  return Find([&prefix](const dl_phdr_info& object) {
    const std::string_view path = object.dlpi_name;
    return path.substr(path.rfind('/') + 1).starts_with(prefix);
  });
}

}  // namespace ropelab::engine
