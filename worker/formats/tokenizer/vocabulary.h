// The tokens of a model by id and by text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "worker/formats/tokenizer/tokenizer_file.h"

namespace ropelab::formats {

class Vocabulary {
 public:
  // Larger ids are refused, and so are ids far beyond the number of tokens: tables are as long as the
  // largest.
  static constexpr int64_t kMaxId = (1 << 24) - 1;

  // INVALID_ARGUMENT naming the token: an id that is negative, too large, far beyond the others or
  // used twice, a token twice.
  static absl::StatusOr<Vocabulary> Build(std::vector<TokenizerFile::Token> tokens);

  int32_t Find(std::string_view text) const {  // -1: no such token
    const auto found = ids_.find(text);
    return found == ids_.end() ? -1 : found->second;
  }
  bool Has(int64_t id) const { return id >= 0 && id < end() && present_[static_cast<size_t>(id)]; }
  const std::string& Text(int32_t id) const { return texts_[static_cast<size_t>(id)]; }
  int32_t end() const { return static_cast<int32_t>(texts_.size()); }  // one past the largest id
  int32_t count() const { return static_cast<int32_t>(ids_.size()); }

 private:
  std::vector<std::string> texts_;
  std::vector<bool> present_;
  absl::flat_hash_map<std::string_view, int32_t, std::hash<std::string_view>> ids_;  // views into texts_
};

}  // namespace ropelab::formats
