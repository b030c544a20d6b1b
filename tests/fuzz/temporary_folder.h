// What every fuzz target shares: a check that ends the process, and a folder in memory for code that reads
// files.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

// A property that must hold whatever the input. libFuzzer keeps the input of a process that aborts.
#define ROPELAB_FUZZ_CHECK(condition)                                                     \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      std::fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                       \
    }                                                                                     \
  } while (false)

namespace ropelab::fuzz {

inline std::string_view Text(const uint8_t* bytes, size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

// A folder of this process, removed at its end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    path_ =
        std::filesystem::exists("/dev/shm") ? "/dev/shm" : std::filesystem::temp_directory_path().string();
    path_ += "/ropelab-fuzz-XXXXXX";
    ROPELAB_FUZZ_CHECK(mkdtemp(path_.data()) != nullptr);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }

  const std::string& path() const { return path_; }

  void Write(const char* name, std::string_view text) const {
    std::FILE* file = std::fopen((path_ + "/" + name).c_str(), "wb");
    ROPELAB_FUZZ_CHECK(file != nullptr);
    ROPELAB_FUZZ_CHECK(std::fwrite(text.data(), 1, text.size(), file) == text.size());
    ROPELAB_FUZZ_CHECK(std::fclose(file) == 0);
  }

 private:
  std::string path_;
};

}  // namespace ropelab::fuzz
