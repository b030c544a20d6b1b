#include "worker/formats/tokenizer/decoder.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "worker/formats/tokenizer/decoder_steps.h"
#include "worker/formats/tokenizer/json_fields.h"
#include "worker/formats/tokenizer/metaspace.h"
#include "worker/formats/tokenizer/normalizer.h"

namespace ropelab::formats {
namespace {

using Json = nlohmann::json;
using DecoderSteps = std::vector<std::shared_ptr<const Decoder::Step>>;

absl::Status ReadDecoder(const Json& json, const std::string& path, DecoderSteps& steps) {
  ROPELAB_ASSIGN_OR_RETURN(TypedFields part, FieldsWithType(json, path));
  JsonFields& fields = part.fields;
  if (part.type == "Sequence") {
    ROPELAB_ASSIGN_OR_RETURN(const Json* list, fields.Array("decoders"));
    for (size_t k = 0; k < list->size(); ++k) {
      ROPELAB_RETURN_IF_ERROR(ReadDecoder((*list)[k], absl::StrCat(path, ".decoders[", k, "]"), steps));
    }
  } else if (part.type == "ByteLevel") {
    fields.Ignore({"add_prefix_space", "trim_offsets", "use_regex"});  // decoding does not look at them
    steps.push_back(std::make_shared<ByteLevelDecoding>());
  } else if (part.type == "ByteFallback") {
    steps.push_back(std::make_shared<ByteFallbackDecoding>());
  } else if (part.type == "Fuse") {
    steps.push_back(std::make_shared<Fusing>());
  } else if (part.type == "Replace") {
    ROPELAB_ASSIGN_OR_RETURN(auto pattern, ReadPattern(fields));
    ROPELAB_ASSIGN_OR_RETURN(std::string content, fields.String("content"));
    steps.push_back(std::make_shared<Replacing>(std::move(pattern), std::move(content)));
  } else if (part.type == "Strip") {
    ROPELAB_ASSIGN_OR_RETURN(std::string character, fields.Character("content"));
    ROPELAB_ASSIGN_OR_RETURN(const int64_t start, fields.Count("start"));
    ROPELAB_ASSIGN_OR_RETURN(const int64_t stop, fields.Count("stop"));
    steps.push_back(std::make_shared<Stripping>(std::move(character), static_cast<size_t>(start),
                                                static_cast<size_t>(stop)));
  } else if (part.type == "Metaspace") {
    ROPELAB_ASSIGN_OR_RETURN(const Metaspace metaspace, ReadMetaspace(fields));
    steps.push_back(
        std::make_shared<MarkDecoding>(metaspace.mark, metaspace.prepend != Metaspace::Prepend::kNever));
  } else {
    return TypeNotBuilt(part, "Sequence, ByteLevel, ByteFallback, Fuse, Replace, Strip and Metaspace");
  }
  return fields.RefuseOthers();
}

}  // namespace

absl::StatusOr<Decoder> Decoder::Read(const Json* json) {
  Decoder decoder;
  decoder.given_ = json != nullptr;
  if (json != nullptr) ROPELAB_RETURN_IF_ERROR(ReadDecoder(*json, "decoder", decoder.steps_));
  return decoder;
}

absl::StatusOr<std::string> Decoder::Decode(std::vector<std::string> tokens) const {
  for (const auto& step : steps_) ROPELAB_RETURN_IF_ERROR(step->Apply(tokens));
  return absl::StrJoin(tokens, given_ ? "" : " ");
}

}  // namespace ropelab::formats
