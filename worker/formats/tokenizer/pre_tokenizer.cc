#include "worker/formats/tokenizer/pre_tokenizer.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/formats/tokenizer/json_fields.h"
#include "worker/formats/tokenizer/metaspace.h"
#include "worker/formats/tokenizer/normalizer.h"
#include "worker/formats/tokenizer/pre_tokenizer_steps.h"

namespace ropelab::formats {
namespace {

using Json = nlohmann::json;
using PreTokenizerSteps = std::vector<std::shared_ptr<const PreTokenizer::Step>>;

// GPT-2's own pattern, which ByteLevel brings along.
constexpr char kByteLevelPattern[] =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

absl::Status AddPattern(const char* pattern, SplitBehavior behavior, PreTokenizerSteps& steps) {
  ROPELAB_ASSIGN_OR_RETURN(auto compiled, SplitPattern::Compile(pattern));
  steps.push_back(std::make_shared<SplitStep>(std::move(compiled), behavior, false));
  return absl::OkStatus();
}

absl::Status ReadSplit(JsonFields& fields, PreTokenizerSteps& steps) {
  ROPELAB_ASSIGN_OR_RETURN(auto pattern, ReadPattern(fields));
  ROPELAB_ASSIGN_OR_RETURN(const SplitBehavior behavior, ReadSplitBehavior(fields));
  ROPELAB_ASSIGN_OR_RETURN(const bool invert, fields.Bool("invert"));
  steps.push_back(std::make_shared<SplitStep>(std::move(pattern), behavior, invert));
  return absl::OkStatus();
}

absl::Status ReadByteLevel(JsonFields& fields, PreTokenizerSteps& steps) {
  ROPELAB_ASSIGN_OR_RETURN(const bool prefix, fields.Bool("add_prefix_space"));
  ROPELAB_ASSIGN_OR_RETURN(const bool use_pattern, fields.BoolOr("use_regex", true));
  ROPELAB_RETURN_IF_ERROR(fields.Bool("trim_offsets").status());  // only the post-processor's one has effect
  if (prefix) steps.push_back(std::make_shared<PrefixStep>(" ", false, ""));
  if (use_pattern) ROPELAB_RETURN_IF_ERROR(AddPattern(kByteLevelPattern, SplitBehavior::kIsolated, steps));
  steps.push_back(std::make_shared<SpellStep>());
  return absl::OkStatus();
}

absl::Status AddMetaspace(JsonFields& fields, PreTokenizerSteps& steps) {
  ROPELAB_ASSIGN_OR_RETURN(const Metaspace metaspace, ReadMetaspace(fields));
  const std::string prefix = metaspace.prepend == Metaspace::Prepend::kNever ? "" : metaspace.mark;
  const bool first_only = metaspace.prepend == Metaspace::Prepend::kFirst;
  steps.push_back(std::make_shared<PrefixStep>(prefix, first_only, metaspace.mark));
  if (metaspace.split) {
    auto mark = SplitPattern::Literal(metaspace.mark);
    steps.push_back(std::make_shared<SplitStep>(std::move(mark), SplitBehavior::kMergedWithNext, false));
  }
  return absl::OkStatus();
}

absl::Status ReadDigits(JsonFields& fields, PreTokenizerSteps& steps) {
  ROPELAB_ASSIGN_OR_RETURN(const bool individual, fields.Bool("individual_digits"));
  return AddPattern(R"(\p{N})", individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous, steps);
}

absl::Status ReadPreTokenizer(const Json& json, const std::string& path, PreTokenizerSteps& steps) {
  ROPELAB_ASSIGN_OR_RETURN(TypedFields part, FieldsWithType(json, path));
  JsonFields& fields = part.fields;
  if (part.type == "Sequence") {
    ROPELAB_ASSIGN_OR_RETURN(const Json* list, fields.Array("pretokenizers"));
    for (size_t k = 0; k < list->size(); ++k) {
      ROPELAB_RETURN_IF_ERROR(
          ReadPreTokenizer((*list)[k], absl::StrCat(path, ".pretokenizers[", k, "]"), steps));
    }
  } else if (part.type == "Split") {
    ROPELAB_RETURN_IF_ERROR(ReadSplit(fields, steps));
  } else if (part.type == "ByteLevel") {
    ROPELAB_RETURN_IF_ERROR(ReadByteLevel(fields, steps));
  } else if (part.type == "Metaspace") {
    ROPELAB_RETURN_IF_ERROR(AddMetaspace(fields, steps));
  } else if (part.type == "Digits") {
    ROPELAB_RETURN_IF_ERROR(ReadDigits(fields, steps));
  } else {
    return TypeNotBuilt(part, "Sequence, Split, ByteLevel, Metaspace and Digits");
  }
  return fields.RefuseOthers();
}

}  // namespace

absl::StatusOr<PreTokenizer> PreTokenizer::Read(const Json* json) {
  PreTokenizer tokenizer;
  if (json != nullptr) ROPELAB_RETURN_IF_ERROR(ReadPreTokenizer(*json, "pre_tokenizer", tokenizer.steps_));
  if (!tokenizer.steps_.empty() && tokenizer.steps_.back()->spells_bytes()) {
    tokenizer.steps_.pop_back();
    tokenizer.bytes_ = true;
  }
  return tokenizer;
}

absl::Status PreTokenizer::Apply(CutText& cut) const {
  for (const auto& step : steps_) ROPELAB_RETURN_IF_ERROR(step->Apply(cut));
  return absl::OkStatus();
}

}  // namespace ropelab::formats
