// Where a training writes: OUT/state, OUT/NAME and OUT/checkpoints, held by one trainer at a time.
#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ropelab::train {

// Makes a folder and those above it. An error names the folder and what the system said: RESOURCE_EXHAUSTED
// where the disk is full, INVALID_ARGUMENT where another path would do, else INTERNAL.
absl::Status MakeFolder(const std::filesystem::path& folder);

class OutputFolder {
 public:
  // Makes OUT/state and OUT/NAME, holds the lock OUT/state/lock until the object ends, and removes the
  // temporary files that a killed trainer left beside the files that it writes. FAILED_PRECONDITION, with
  // nothing made: there is a model or a curve of that name, or a table of checkpoints, but no state that they
  // would belong to. FAILED_PRECONDITION too: another trainer holds the lock. Other errors: MakeFolder's.
  static absl::StatusOr<OutputFolder> Claim(const std::string& out, const std::string& name);

  OutputFolder(OutputFolder&& other) noexcept;
  OutputFolder& operator=(OutputFolder&&) = delete;
  ~OutputFolder();

  std::filesystem::path state() const { return out_ / "state"; }
  std::filesystem::path model() const { return out_ / name_; }
  std::filesystem::path checkpoints() const { return out_ / "checkpoints"; }

  // The remedy where what is there cannot be gone on with: "give another --out, or remove ...".
  std::string BeginAgain() const;

 private:
  OutputFolder(std::filesystem::path out, std::string name) : out_(std::move(out)), name_(std::move(name)) {}
  absl::Status Lock();
  void RemoveLitter() const;

  std::filesystem::path out_;
  std::string name_;
  int lock_ = -1;
};

}  // namespace ropelab::train
