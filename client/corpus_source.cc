#include "client/corpus_source.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/corpus_text.h"
#include "common/status_macros.h"

namespace ropelab::client {
namespace {

namespace fs = std::filesystem;

absl::Status CannotRead(const std::string& path, int error) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be read: ", std::strerror(error)));
}

// Closes itself.
class InputFile {
 public:
  explicit InputFile(const std::string& path) : descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~InputFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  bool is_open() const { return descriptor_ >= 0; }
  // Up to `bytes`, fewer only at the end; false with errno set.
  bool Read(size_t bytes, std::string* piece) {
    piece->resize(bytes);
    size_t filled = 0;
    while (filled < bytes) {
      const ssize_t got = read(descriptor_, piece->data() + filled, bytes - filled);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return false;
      if (got == 0) break;
      filled += static_cast<size_t>(got);
    }
    piece->resize(filled);
    return true;
  }

 private:
  const int descriptor_;
};

absl::StatusOr<std::vector<std::string>> TextFilesOf(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error, ignored;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() == ".txt" && entry->is_regular_file(ignored)) {
      files.push_back(entry->path().string());
    }
  }
  if (error) return CannotRead(folder, error.value());
  if (files.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        folder,
        ": holds no *.txt file: a folder's documents are its *.txt files, one each; a .jsonl file is "
        "named itself"));
  }
  std::sort(files.begin(), files.end());
  return files;
}

absl::StatusOr<std::string> KindOf(const fs::path& path, bool folder, const std::string& kind) {
  if (!kind.empty()) {
    if (folder && kind != "text") {
      return absl::InvalidArgumentError(
          absl::StrCat(path.string(), ": is a folder of texts: --kind ", kind, " is for one file"));
    }
    return kind;
  }
  if (folder || path.extension() == ".txt") return std::string("text");
  if (path.extension() == ".jsonl") return std::string("jsonl");
  return absl::InvalidArgumentError(
      absl::StrCat(path.string(), ": ends neither in .txt nor in .jsonl: say --kind text or --kind jsonl"));
}

}  // namespace

absl::StatusOr<CorpusSource> FindCorpusSource(const std::string& path, const std::string& kind) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    return absl::NotFoundError(absl::StrCat(
        path, ": ",
        error && status.type() == fs::file_type::none ? error.message() : "no such file or folder"));
  }
  const bool folder = fs::is_directory(status);
  if (!folder && !fs::is_regular_file(status)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is neither a file nor a folder"));
  }
  CorpusSource source;
  ROPELAB_ASSIGN_OR_RETURN(source.kind, KindOf(path, folder, kind));
  source.files = {path};
  if (folder) {
    ROPELAB_ASSIGN_OR_RETURN(source.files, TextFilesOf(path));
  }
  for (const std::string& file : source.files) {
    if (access(file.c_str(), R_OK) != 0) return CannotRead(file, errno);
    const auto bytes = fs::file_size(file, error);
    if (error) return CannotRead(file, error.value());
    source.bytes += static_cast<int64_t>(bytes);
  }
  if (source.bytes == 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is empty: a corpus holds some text"));
  }
  return source;
}

absl::Status ReadCorpusSource(const CorpusSource& source,
                              absl::FunctionRef<bool(const v1::AddCorpusRequest&)> send) {
  CorpusSplitter splitter(source.kind == "jsonl");
  int64_t documents = 0;
  const auto count = [&](const CorpusDocument&) {
    ++documents;
    return absl::OkStatus();
  };
  for (const std::string& path : source.files) {
    InputFile file(path);
    if (!file.is_open()) return CannotRead(path, errno);
    splitter.Begin(path);
    for (bool ends = false; !ends;) {
      v1::AddCorpusRequest request;
      std::string* piece = request.mutable_data();
      if (!file.Read(kCorpusPieceBytes, piece)) return CannotRead(path, errno);
      ends = static_cast<int64_t>(piece->size()) < kCorpusPieceBytes;
      request.set_document_ends(ends);
      ROPELAB_RETURN_IF_ERROR(splitter.Append(*piece, count));
      if (ends) ROPELAB_RETURN_IF_ERROR(splitter.End(count));
      if (!send(request)) return absl::OkStatus();
    }
  }
  if (documents == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(source.files.front(), ": holds blank lines alone: a corpus holds some text"));
  }
  return absl::OkStatus();
}

}  // namespace ropelab::client
