#include "worker/formats/tokenizer/post_processor.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/formats/tokenizer/byte_alphabet.h"
#include "worker/formats/tokenizer/json_fields.h"
#include "worker/formats/tokenizer/utf8.h"

namespace ropelab::formats {
namespace {

using Json = nlohmann::json;
using Has = std::function<bool(int64_t)>;

absl::Status ReadTemplate(JsonFields& fields, const Has& has, PostProcessor& processor) {
  ROPELAB_ASSIGN_OR_RETURN(const Json* single, fields.Array("single"));
  fields.Ignore({"pair"});  // two texts are never encoded together here
  const Json* specials = fields.Find("special_tokens");
  if (specials == nullptr || !specials->is_object()) return fields.Error("special_tokens", "is no object");
  std::vector<int32_t> before, after;
  bool text_seen = false;
  for (size_t k = 0; k < single->size(); ++k) {
    const std::string name = absl::StrCat("single[", k, "]");
    ROPELAB_ASSIGN_OR_RETURN(JsonFields piece, JsonFields::Of((*single)[k], fields.PathOf(name)));
    const bool is_text = (*single)[k].contains("Sequence");
    const char* const kind = is_text ? "Sequence" : "SpecialToken";
    if (piece.Find(kind) == nullptr) return fields.Error(name, "is neither Sequence nor SpecialToken");
    ROPELAB_ASSIGN_OR_RETURN(JsonFields part, JsonFields::Of(*piece.Find(kind), piece.PathOf(kind)));
    ROPELAB_ASSIGN_OR_RETURN(const std::string id, part.String("id"));
    part.Ignore({"type_id"});
    ROPELAB_RETURN_IF_ERROR(part.RefuseOthers());
    ROPELAB_RETURN_IF_ERROR(piece.RefuseOthers());
    if (is_text) {
      if (id != "A" || text_seen)
        return part.Error("id", Shown(id) + ": a single text is A, and stands once");
      text_seen = true;
      continue;
    }
    const std::string where = absl::StrCat("special_tokens.", id);
    if (!specials->contains(id)) return fields.Error(where, "is missing, and the template names it");
    ROPELAB_ASSIGN_OR_RETURN(JsonFields special, JsonFields::Of((*specials)[id], fields.PathOf(where)));
    ROPELAB_ASSIGN_OR_RETURN(const Json* ids, special.Array("ids"));
    special.Ignore({"id", "tokens"});
    ROPELAB_RETURN_IF_ERROR(special.RefuseOthers());
    for (const Json& token : *ids) {
      if (!token.is_number_integer() || !has(token.get<int64_t>())) {
        return special.Error("ids", Shown(token) + " is no token's id");
      }
      (text_seen ? after : before).push_back(token.get<int32_t>());
    }
  }
  if (!text_seen) return fields.Error("single", "does not name the text, {\"Sequence\": {\"id\": \"A\"}}");
  processor.prefix.insert(processor.prefix.begin(), before.begin(), before.end());
  processor.suffix.insert(processor.suffix.end(), after.begin(), after.end());
  return absl::OkStatus();
}

absl::Status ReadInto(const Json& json, const std::string& path, const Has& has, PostProcessor& processor) {
  ROPELAB_ASSIGN_OR_RETURN(TypedFields part, FieldsWithType(json, path));
  JsonFields& fields = part.fields;
  if (part.type == "Sequence") {
    ROPELAB_ASSIGN_OR_RETURN(const Json* list, fields.Array("processors"));
    for (size_t k = 0; k < list->size(); ++k) {
      ROPELAB_RETURN_IF_ERROR(
          ReadInto((*list)[k], absl::StrCat(path, ".processors[", k, "]"), has, processor));
    }
  } else if (part.type == "ByteLevel") {
    ROPELAB_ASSIGN_OR_RETURN(processor.trim_keeps_prefix, fields.Bool("add_prefix_space"));
    ROPELAB_ASSIGN_OR_RETURN(processor.trim, fields.Bool("trim_offsets"));
    ROPELAB_RETURN_IF_ERROR(fields.BoolOr("use_regex", true).status());
  } else if (part.type == "TemplateProcessing") {
    ROPELAB_RETURN_IF_ERROR(ReadTemplate(fields, has, processor));
  } else {
    return TypeNotBuilt(part, "Sequence, ByteLevel and TemplateProcessing");
  }
  return fields.RefuseOthers();
}

}  // namespace

absl::StatusOr<PostProcessor> ReadPostProcessor(const Json* json, const Has& has) {
  PostProcessor processor;
  if (json != nullptr) ROPELAB_RETURN_IF_ERROR(ReadInto(*json, "post_processor", has, processor));
  return processor;
}

TokenSpan TrimSpan(const PostProcessor& processor, std::string_view text, std::string_view token, bool first,
                   TokenSpan span) {
  const std::string_view space = CharacterOfByte(' ');
  size_t leading = 0;
  size_t trailing = 0;
  for (std::string_view rest = token; rest.starts_with(space); rest.remove_prefix(space.size())) ++leading;
  for (std::string_view rest = token; rest.ends_with(space); rest.remove_suffix(space.size())) ++trailing;
  if (leading == 1 && processor.trim_keeps_prefix && (first || span.begin == 0)) leading = 0;
  for (; leading > 0 && span.begin < span.end; --leading) span.begin += CharacterBytes(text[span.begin]);
  for (; trailing > 0 && span.begin < span.end; --trailing) span.end = PreviousCharacter(text, span.end);
  return span;
}

}  // namespace ropelab::formats
