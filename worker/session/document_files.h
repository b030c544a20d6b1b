// Documents of corpora as files, each under the content it belongs to: FOLDER/<corpus>/<document>. Shared by
// the workers of a host; a file that was torn, damaged or put into another's place is found out by its own
// SHA-256 and dropped.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ropelab::session {

// One thread only. Processes may share a folder.
class DocumentFiles {
 public:
  // Least recently used documents are removed when all together exceed `limit` bytes; the folder's real size
  // is looked at after every `limit` / 32 bytes written here.
  DocumentFiles(std::string folder, int64_t limit) : folder_(std::move(folder)), limit_(limit) {}

  // None: not there, or not what was written. Marks it as used. `corpus` is a SHA-256, hex.
  std::optional<std::string> Read(const std::string& corpus, int64_t document);
  // Replaces the file in one step. A folder that cannot be written to is said once and then left alone:
  // nothing but time depends on it.
  void Write(const std::string& corpus, int64_t document, std::string_view bytes);

 private:
  std::string PathOf(const std::string& corpus, int64_t document) const;
  void RemoveOldest();

  const std::string folder_;
  const int64_t limit_;
  int64_t unseen_bytes_ = 0;  // written since the folder was last looked at
  bool complained_ = false;
};

}  // namespace ropelab::session
