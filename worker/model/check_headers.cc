#include "worker/model/check_headers.h"

#include <filesystem>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "worker/model/tensor_reader.h"
#include "worker/model/weight_slots.h"

namespace ropelab::model {
namespace {

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

bool IsIgnored(const std::string& name, const formats::ModelConfig& config,
               const formats::WeightNames& names) {
  // A tied checkpoint may store the shared matrix under both names.
  if (config.tied_embeddings && name == names.lm_head) return true;
  for (const std::string_view suffix : names.ignored_suffixes) {
    if (name.size() >= suffix.size() && std::string_view(name).substr(name.size() - suffix.size()) == suffix)
      return true;
  }
  return false;
}

std::string Where(const std::string& directory, const formats::TensorEntry& entry) {
  return absl::StrCat((std::filesystem::path(directory) / entry.file).string(), ": tensor ", entry.name);
}

absl::Status CheckSlot(const formats::Checkpoint& checkpoint, const std::string& directory,
                       const WeightSlot& slot) {
  const formats::TensorEntry* entry = checkpoint.Find(slot.name);
  if (entry == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(directory, ": tensor ", slot.name, " of shape ", ShapeText(slot.shape),
                     " is missing; config.json calls for it: copy the checkpoint again"));
  }
  if (entry->shape != slot.shape) {
    return absl::InvalidArgumentError(absl::StrCat(
        Where(directory, *entry), " has shape ", ShapeText(entry->shape), ", config.json calls for ",
        ShapeText(slot.shape), "; the two belong to different models"));
  }
  if (!StoredType(entry->dtype).has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat(Where(directory, *entry), " is stored as ", entry->dtype,
                     "; weights are read from F32, BF16 and F16: convert the checkpoint"));
  }
  return absl::OkStatus();
}

}  // namespace

formats::WeightNames StoredNames(const formats::Checkpoint& checkpoint, const formats::ModelConfig& config) {
  formats::WeightNames names = formats::FindFamily(config.family)->names;
  if (config.tied_embeddings && checkpoint.Find(names.embedding) == nullptr &&
      checkpoint.Find(names.lm_head) != nullptr) {
    names.embedding = names.lm_head;
  }
  return names;
}

absl::Status CheckHeaders(const formats::Checkpoint& checkpoint, const std::string& directory,
                          const formats::ModelConfig& config) {
  const formats::WeightNames names = StoredNames(checkpoint, config);
  Weights places;
  std::unordered_set<std::string> wanted;
  for (WeightSlot& slot : WeightSlots(config, names, &places)) {
    ROPELAB_RETURN_IF_ERROR(CheckSlot(checkpoint, directory, slot));
    wanted.insert(std::move(slot.name));
  }
  for (const formats::TensorEntry& entry : checkpoint.tensors()) {
    if (wanted.count(entry.name) > 0 || IsIgnored(entry.name, config, names)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(Where(directory, entry), " has no place in a ", config.family, " of ", config.layers,
                     " layers as config.json describes it; leaving it out would compute another model"));
  }
  if (!config.tied_embeddings) return absl::OkStatus();
  const formats::TensorEntry* embedding = checkpoint.Find(names.embedding);
  const formats::TensorEntry* output = checkpoint.Find(names.lm_head);
  if (output == nullptr || (output->dtype == embedding->dtype && output->shape == embedding->shape))
    return absl::OkStatus();
  return TiedNamesDiffer(directory, *embedding, *output);
}

// Transformers 4 computes with the embedding and transformers 5 with lm_head: nobody can say which model
// this is.
absl::Status TiedNamesDiffer(const std::string& directory, const formats::TensorEntry& embedding,
                             const formats::TensorEntry& output) {
  return absl::InvalidArgumentError(absl::StrCat(
      Where(directory, output), " differs from ", embedding.name,
      ", which tie_word_embeddings (true in config.json, or by the family's default) says it is; set it to "
      "false to compute with both, or leave ",
      output.name, " out"));
}

}  // namespace ropelab::model
