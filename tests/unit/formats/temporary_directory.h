// A directory of one test's own, removed with the object.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace ropelab::unit {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "ropelab_test_XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string File(std::string_view name) const { return (std::filesystem::path(path_) / name).string(); }
  void Write(std::string_view name, std::string_view text) const {
    std::ofstream(File(name), std::ios::binary | std::ios::trunc) << text;
  }

 private:
  std::string path_;
};

}  // namespace ropelab::unit
