#include "worker/formats/tokenizer/normalizer.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/formats/tokenizer/text_rewriter.h"
#include "worker/formats/tokenizer/utf8.h"

namespace ropelab::formats {
namespace {

using Json = nlohmann::json;
using NormalizerSteps = std::vector<std::shared_ptr<const Normalizer::Step>>;

class Nfc : public Normalizer::Step {
 public:
  absl::Status Apply(NormalizedText& text) const override {
    ComposeNfc(text);
    return absl::OkStatus();
  }
};

// The new text stands for the first character, which stays.
class Prepend : public Normalizer::Step {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  absl::Status Apply(NormalizedText& text) const override {
    if (text.text.empty()) return absl::OkStatus();
    TextRewriter rewriter(text);
    rewriter.Put(prefix_, OriginOf(text, 0, CharacterBytes(text.text[0])));
    rewriter.Keep(0, text.text.size());
    text = rewriter.Take();
    return absl::OkStatus();
  }

 private:
  const std::string prefix_;
};

class Replace : public Normalizer::Step {
 public:
  Replace(std::shared_ptr<const SplitPattern> pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  absl::Status Apply(NormalizedText& text) const override {
    std::vector<TextRange> matches;
    ROPELAB_RETURN_IF_ERROR(pattern_->FindAll(text.text, matches));
    if (matches.empty()) return absl::OkStatus();
    TextRewriter rewriter(text);
    size_t done = 0;
    for (const TextRange& match : matches) {
      rewriter.Keep(done, match.begin);
      rewriter.Put(content_, OriginOf(text, match.begin, match.end));
      done = match.end;
    }
    rewriter.Keep(done, text.text.size());
    text = rewriter.Take();
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<const SplitPattern> pattern_;
  const std::string content_;
};

absl::Status ReadNormalizer(const Json& json, const std::string& path, NormalizerSteps& steps) {
  ROPELAB_ASSIGN_OR_RETURN(TypedFields part, FieldsWithType(json, path));
  JsonFields& fields = part.fields;
  if (part.type == "Sequence") {
    ROPELAB_ASSIGN_OR_RETURN(const Json* list, fields.Array("normalizers"));
    for (size_t k = 0; k < list->size(); ++k) {
      ROPELAB_RETURN_IF_ERROR(ReadNormalizer((*list)[k], absl::StrCat(path, ".normalizers[", k, "]"), steps));
    }
  } else if (part.type == "Prepend") {
    ROPELAB_ASSIGN_OR_RETURN(std::string prefix, fields.String("prepend"));
    steps.push_back(std::make_shared<Prepend>(std::move(prefix)));
  } else if (part.type == "Replace") {
    ROPELAB_ASSIGN_OR_RETURN(auto pattern, ReadPattern(fields));
    ROPELAB_ASSIGN_OR_RETURN(std::string content, fields.String("content"));
    steps.push_back(std::make_shared<Replace>(std::move(pattern), std::move(content)));
  } else if (part.type == "NFC") {
    steps.push_back(std::make_shared<Nfc>());
  } else {
    return TypeNotBuilt(part, "Sequence, Prepend, Replace and NFC");
  }
  return fields.RefuseOthers();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const SplitPattern>> ReadPattern(JsonFields& fields) {
  const Json* json = fields.Find("pattern");
  if (json == nullptr) return fields.Error("pattern", "is missing");
  ROPELAB_ASSIGN_OR_RETURN(JsonFields pattern, JsonFields::Of(*json, fields.PathOf("pattern")));
  if (json->contains("String")) {
    ROPELAB_ASSIGN_OR_RETURN(const std::string text, pattern.String("String"));
    if (text.empty()) return pattern.Error("String", "is empty; a pattern needs text");
    ROPELAB_RETURN_IF_ERROR(pattern.RefuseOthers());
    return SplitPattern::Literal(text);
  }
  ROPELAB_ASSIGN_OR_RETURN(const std::string text, pattern.String("Regex"));
  ROPELAB_RETURN_IF_ERROR(pattern.RefuseOthers());
  auto compiled = SplitPattern::Compile(text);
  if (!compiled.ok()) return pattern.Error("Regex", std::string(compiled.status().message()));
  return compiled;
}

absl::StatusOr<Normalizer> Normalizer::Read(const Json* json) {
  Normalizer normalizer;
  if (json != nullptr) ROPELAB_RETURN_IF_ERROR(ReadNormalizer(*json, "normalizer", normalizer.steps_));
  return normalizer;
}

absl::Status Normalizer::Apply(NormalizedText& text) const {
  for (const auto& step : steps_) ROPELAB_RETURN_IF_ERROR(step->Apply(text));
  return absl::OkStatus();
}

}  // namespace ropelab::formats
