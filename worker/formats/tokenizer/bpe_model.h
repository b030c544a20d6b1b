// The tables of a byte-pair-encoding model, as tokenizer.json gives them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "worker/formats/tokenizer/tokenizer_file.h"
#include "worker/formats/tokenizer/vocabulary.h"

namespace ropelab::formats {

// Two neighbours become `id`; the pair with the lowest rank goes first.
struct Merge {
  uint32_t rank = 0;
  int32_t id = -1;
};

struct BpeModel {
  Vocabulary vocabulary;
  absl::flat_hash_map<uint64_t, Merge> merges;  // by PairKey
  // What stands for a character without a token: its bytes' tokens when all of them exist, else `unknown`.
  bool byte_fallback = false;
  std::array<int32_t, 256> byte_tokens;  // of "<0x00>" ...; -1: no such token
  bool has_unknown = false;              // the file names an unknown token
  int32_t unknown = -1;                  // -1 with has_unknown: named, but not in the vocabulary
  std::string unknown_text;
  bool fuse_unknown = false;            // neighbouring unknown characters are one token
  bool ignore_merges = false;           // a piece that is a token stays whole
  bool merges_use_substitutes = false;  // some merge names a byte token or the unknown token

  static uint64_t PairKey(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  const Merge* Find(int32_t left, int32_t right) const {
    const auto found = merges.find(PairKey(left, right));
    return found == merges.end() ? nullptr : &found->second;
  }
};

// Reads "model", taking the vocabulary and merges out of `file`. INVALID_ARGUMENT names the field, token or
// merge that is malformed or not built.
absl::StatusOr<BpeModel> ReadBpeModel(TokenizerFile& file);

}  // namespace ropelab::formats
