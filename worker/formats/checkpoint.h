// A checkpoint's directory without torch: what it holds, its config, its hashes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/formats/model_config.h"

namespace ropelab::formats {

// A tensor inside a mapped shard. Data may be unaligned.
struct TensorEntry {
  std::string name;
  std::string dtype;  // as safetensors spells it: "F32", "BF16", "F16", "I64", ...
  std::vector<int64_t> shape;
  std::string file;
  std::string_view bytes;  // valid while the Checkpoint lives
};

class Checkpoint {
 public:
  // Maps every *.safetensors that the index (or the single file) names and checks each header: length against
  // the file, offsets within data and without overlap, shape times dtype size against the byte range,
  // duplicate names, JSON depth.
  static absl::StatusOr<Checkpoint> Open(const std::string& directory);
  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  const std::vector<TensorEntry>& tensors() const { return tensors_; }  // sorted by name
  const TensorEntry* Find(std::string_view name) const;
  int64_t bytes() const;

 private:
  Checkpoint();
  struct Mapping;
  std::vector<Mapping> mappings_;
  std::vector<TensorEntry> tensors_;
};

absl::StatusOr<ModelConfig> ReadConfig(const std::string& directory);
// SHA-256, hex, of CanonicalConfigText.
std::string ConfigHash(const ModelConfig& config);
// SHA-256, hex, over the tensors sorted by name: name, dtype, shape, bytes; independent of sharding. Cached
// beside size, mtime, inode and ctime (nanoseconds) of every shard in `cache_dir` (empty: no cache); an entry
// never survives a changed file, and none is made while a change could still hide in a clock tick (2 s). Of
// files of 256 MiB and more that time is waited for. What was read is given back: resident memory grows by
// some MiB. CANCELLED: keep_going said no (it is asked before the first byte is read); ABORTED: a shard
// changed meanwhile.
absl::StatusOr<std::string> WeightsHash(const std::string& directory, const std::string& cache_dir,
                                        absl::FunctionRef<bool(int64_t done, int64_t total)> keep_going);
// "" without a tokenizer.json.
absl::StatusOr<std::string> TokenizerHash(const std::string& directory);
// Size, mtime, inode and ctime of every file that a model is made of, as one line: unequal means that the
// directory changed, or that its files were touched, moved or linked.
absl::StatusOr<std::string> DirectoryStamp(const std::string& directory);

}  // namespace ropelab::formats
