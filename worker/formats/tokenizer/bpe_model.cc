#include "worker/formats/tokenizer/bpe_model.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "worker/formats/tokenizer/json_fields.h"

namespace ropelab::formats {
namespace {

using Json = nlohmann::json;

absl::Status ReadOptions(JsonFields& fields, BpeModel& model) {
  if (const Json* type = fields.Find("type"); type != nullptr && *type != "BPE") {
    return fields.Error("type", Shown(*type) + " is not built; only BPE is");
  }
  if (const Json* dropout = fields.Find("dropout"); dropout != nullptr && *dropout != 0) {
    return fields.Error("dropout", Shown(*dropout) + " would draw tokens at random; set it to null");
  }
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (const Json* text = fields.Find(affix); text != nullptr && *text != "") {
      return fields.Error(affix, Shown(*text) + " is not built; only null and \"\" are");
    }
  }
  if (fields.Find("unk_token") != nullptr) {
    model.has_unknown = true;
    ROPELAB_ASSIGN_OR_RETURN(model.unknown_text, fields.String("unk_token"));
  }
  ROPELAB_ASSIGN_OR_RETURN(model.fuse_unknown, fields.BoolOr("fuse_unk", false));
  ROPELAB_ASSIGN_OR_RETURN(model.byte_fallback, fields.BoolOr("byte_fallback", false));
  ROPELAB_ASSIGN_OR_RETURN(model.ignore_merges, fields.BoolOr("ignore_merges", false));
  return fields.RefuseOthers();
}

absl::Status BadMerge(size_t index, std::string_view token, std::string_view problem) {
  return absl::InvalidArgumentError(
      absl::StrCat("model.merges[", index, "]: token '", Printable(token, 60), "' ", std::string(problem)));
}

// A pair that is given twice has the later rank, as in the reference.
absl::Status AddMerges(const std::vector<std::pair<std::string, std::string>>& merges, BpeModel& model) {
  model.merges.reserve(merges.size());
  std::string joined;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right] = merges[rank];
    int32_t ids[2];
    for (int side = 0; side < 2; ++side) {
      const std::string& text = side == 0 ? left : right;
      ids[side] = model.vocabulary.Find(text);
      if (text.empty()) return BadMerge(rank, text, "is empty; a merge joins two tokens with text");
      if (ids[side] < 0) return BadMerge(rank, text, "is not in model.vocab");
    }
    joined.assign(left).append(right);
    const int32_t id = model.vocabulary.Find(joined);
    if (id < 0) return BadMerge(rank, joined, "is what the merge gives, and is not in model.vocab");
    model.merges[BpeModel::PairKey(ids[0], ids[1])] = Merge{static_cast<uint32_t>(rank), id};
    for (const int32_t part : ids) {
      const bool byte = model.byte_fallback && model.vocabulary.Text(part).size() == 6 &&
                        model.vocabulary.Text(part).starts_with("<0x");
      model.merges_use_substitutes |= byte || (model.has_unknown && part == model.unknown);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<BpeModel> ReadBpeModel(TokenizerFile& file) {
  BpeModel model;
  const Json* json = file.rest.is_object() && file.rest.contains("model") ? &file.rest["model"] : nullptr;
  if (json == nullptr) return absl::InvalidArgumentError("model: is missing");
  ROPELAB_ASSIGN_OR_RETURN(JsonFields fields, JsonFields::Of(*json, "model"));
  ROPELAB_RETURN_IF_ERROR(ReadOptions(fields, model));
  if (!file.has_vocab) return fields.Error("vocab", "is missing");
  if (!file.has_merges) return fields.Error("merges", "is missing");
  ROPELAB_ASSIGN_OR_RETURN(model.vocabulary, Vocabulary::Build(std::move(file.vocab)));
  if (model.has_unknown) model.unknown = model.vocabulary.Find(model.unknown_text);
  for (int byte = 0; byte < 256; ++byte) {
    model.byte_tokens[static_cast<size_t>(byte)] = model.vocabulary.Find(absl::StrFormat("<0x%02X>", byte));
  }
  ROPELAB_RETURN_IF_ERROR(AddMerges(file.merges, model));
  file.merges = {};
  return model;
}

}  // namespace ropelab::formats
