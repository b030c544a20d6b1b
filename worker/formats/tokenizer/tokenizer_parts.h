// What a Tokenizer is made of.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "worker/formats/tokenizer/added_tokens.h"
#include "worker/formats/tokenizer/bpe.h"
#include "worker/formats/tokenizer/decoder.h"
#include "worker/formats/tokenizer/normalizer.h"
#include "worker/formats/tokenizer/post_processor.h"
#include "worker/formats/tokenizer/pre_tokenizer.h"
#include "worker/formats/tokenizer/tokenizer.h"
#include "worker/formats/tokenizer/workspace_pool.h"

namespace ropelab::formats {

struct Tokenizer::Parts {
  Parts(BpeModel model, Normalizer normalizer_in, PreTokenizer pre_tokenizer_in, AddedTokens added_in)
      : normalizer(std::move(normalizer_in)),
        pre_tokenizer(std::move(pre_tokenizer_in)),
        added(std::move(added_in)),
        bpe(std::move(model), pre_tokenizer.bytes()) {
    Number();
  }

  bool Has(int64_t id) const;
  // Of a token that there is. An added token's own text comes first.
  const std::string& TokenText(int32_t id) const;

  // Appends the tokens of a stretch of `original` that starts at byte `base`, as given or once normalized.
  absl::Status EncodeText(std::string_view text, size_t base, std::string_view original,
                          Bpe::Workspace& workspace, Encoding& encoding) const;
  absl::Status EncodeNormalized(NormalizedText text, size_t base, std::string_view original,
                                Bpe::Workspace& workspace, Encoding& encoding) const;

  const Normalizer normalizer;
  const PreTokenizer pre_tokenizer;
  const AddedTokens added;
  const Bpe bpe;
  PostProcessor post_processor;
  Decoder decoder;
  int32_t end = 0;                   // one past the largest id
  std::vector<int32_t> added_index;  // by id: which added token it is, or -1
  std::vector<bool> special;         // by id
  std::vector<int32_t> special_ids;
  mutable WorkspacePool workspaces;

 private:
  void Number();
};

}  // namespace ropelab::formats
