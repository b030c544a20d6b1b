// Reading tokenizer.json.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/formats/tokenizer/json_fields.h"
#include "worker/formats/tokenizer/tokenizer_file.h"
#include "worker/formats/tokenizer/tokenizer_parts.h"

namespace ropelab::formats {

using Json = nlohmann::json;

void Tokenizer::Parts::Number() {
  const Vocabulary& vocabulary = bpe.model().vocabulary;
  end = vocabulary.end();
  for (const AddedToken& token : added.tokens()) end = std::max(end, token.id + 1);
  added_index.assign(static_cast<size_t>(end), -1);
  special.assign(static_cast<size_t>(end), false);
  for (size_t k = 0; k < added.tokens().size(); ++k) {
    const AddedToken& token = added.tokens()[k];
    added_index[static_cast<size_t>(token.id)] = static_cast<int32_t>(k);
    special[static_cast<size_t>(token.id)] = token.special;
  }
  for (int32_t id = 0; id < end; ++id) {
    if (special[static_cast<size_t>(id)]) special_ids.push_back(id);
  }
}

bool Tokenizer::Parts::Has(int64_t id) const {
  return bpe.model().vocabulary.Has(id) || (id >= 0 && id < end && added_index[static_cast<size_t>(id)] >= 0);
}

const std::string& Tokenizer::Parts::TokenText(int32_t id) const {
  const int32_t index = added_index[static_cast<size_t>(id)];
  return index >= 0 ? added.tokens()[static_cast<size_t>(index)].content : bpe.model().vocabulary.Text(id);
}

namespace {

constexpr uintmax_t kMaxFileBytes = uintmax_t{256} << 20;

absl::Status RefuseLimits(JsonFields& root) {
  for (const char* name : {"truncation", "padding"}) {
    if (const Json* json = root.Find(name)) {
      return root.Error(name,
                        Shown(*json) +
                            " would change every text's tokens; texts are taken whole here, so write null "
                            "in a copy of the file");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer::Parts>> Tokenizer::ReadParts(std::string_view json) {
  ROPELAB_ASSIGN_OR_RETURN(TokenizerFile file, ParseTokenizerFile(json));
  ROPELAB_ASSIGN_OR_RETURN(JsonFields root, JsonFields::Of(file.rest, ""));
  root.Ignore({"version", "model"});  // the model reads itself
  ROPELAB_RETURN_IF_ERROR(RefuseLimits(root));
  ROPELAB_ASSIGN_OR_RETURN(BpeModel model, ReadBpeModel(file));
  ROPELAB_ASSIGN_OR_RETURN(Normalizer normalizer, Normalizer::Read(root.Find("normalizer")));
  ROPELAB_ASSIGN_OR_RETURN(PreTokenizer pre_tokenizer, PreTokenizer::Read(root.Find("pre_tokenizer")));
  const Json* tokens = root.Find("added_tokens");
  if (tokens != nullptr) ROPELAB_RETURN_IF_ERROR(root.Array("added_tokens").status());
  ROPELAB_ASSIGN_OR_RETURN(AddedTokens added, AddedTokens::Read(tokens, model.vocabulary, normalizer));
  auto parts = std::make_unique<Parts>(std::move(model), std::move(normalizer), std::move(pre_tokenizer),
                                       std::move(added));
  const auto has = [&](int64_t id) { return parts->Has(id); };
  ROPELAB_ASSIGN_OR_RETURN(parts->post_processor, ReadPostProcessor(root.Find("post_processor"), has));
  ROPELAB_ASSIGN_OR_RETURN(parts->decoder, Decoder::Read(root.Find("decoder")));
  ROPELAB_RETURN_IF_ERROR(root.RefuseOthers());
  return parts;
}

absl::StatusOr<std::shared_ptr<const Tokenizer>> Tokenizer::Parse(std::string_view json,
                                                                  const std::string& name) {
  auto parts = ReadParts(json);
  if (!parts.ok()) {
    return absl::Status(parts.status().code(), absl::StrCat(name, ": ", parts.status().message()));
  }
  return std::shared_ptr<const Tokenizer>(new Tokenizer(*std::move(parts)));
}

absl::StatusOr<std::shared_ptr<const Tokenizer>> Tokenizer::Read(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return absl::NotFoundError(absl::StrCat(path, ": no such file"));
  if (!std::filesystem::is_regular_file(path, error) && !error) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is not a regular file; name a tokenizer.json or a copy of it"));
  }
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (error) return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be read: ", error.message()));
  if (size > kMaxFileBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": has ", size, " bytes, at most ", kMaxFileBytes, " are read"));
  }
  std::string text(size, '\0');
  std::ifstream stream(path, std::ios::binary);
  if (!stream.read(text.data(), static_cast<std::streamsize>(size))) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be read: ", std::strerror(errno)));
  }
  return Parse(text, path);
}

}  // namespace ropelab::formats
