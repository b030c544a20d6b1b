// The rules of prompts that come from text.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/experiments/corpus_names.h"
#include "server/experiments/prompt_rules.h"
#include "server/experiments/prompts.h"

namespace ropelab::experiments {
namespace {

constexpr char kDefaultField[] = "text";
constexpr char kOtherSources[] = ", or use uniform_tokens, sampled or token_ids";

// `bos` of a source of texts, which has the same three choices everywhere.
template <typename Prompts>
void ResolveBos(Prompts& prompts, const std::string& path, const std::vector<ModelFacts>& models,
                Problems& problems) {
  if (prompts.has_bos() && prompts.bos() == v1::Bos::ALWAYS) {
    CheckHasBos(path, models, problems);
    return;
  }
  if (!prompts.has_bos() || prompts.bos() == v1::Bos::AUTO) {
    prompts.set_bos(AsTokenizersDo(models));
  }
  for (const ModelFacts& model : models) {
    if (StartsWithBos(prompts.bos(), model) && !model.config.has_bos_token_id()) {
      problems.Add(path, "AUTO",
                   absl::StrCat("the tokenizer of model ", model.name,
                                " puts BOS first, but its config.json names no bos_token_id; say NEVER, or "
                                "complete config.json"));
      return;
    }
  }
}

void ResolveTextField(std::string& typed, const std::string& path, const CorpusFacts& corpus,
                      Problems& problems) {
  if (corpus.kind != "jsonl") {
    if (!typed.empty()) {
      problems.Add(path, typed,
                   absl::StrCat("corpus ", corpus.name, " is plain text and has no fields; leave it out"));
    }
    return;
  }
  const auto& fields = corpus.text_fields;
  if (typed.empty() && std::find(fields.begin(), fields.end(), kDefaultField) != fields.end()) {
    typed = kDefaultField;
  } else if (std::find(fields.begin(), fields.end(), typed) == fields.end()) {
    problems.Add(path, typed,
                 absl::StrCat(typed.empty() ? "name the field that holds the text"
                                            : "is not a text field of the corpus's first line",
                              "; corpus ", corpus.name, " has ",
                              fields.empty() ? "no field that holds text" : absl::StrJoin(fields, ", ")));
  }
}

}  // namespace

void CheckTokenizers(const std::string& path, const std::vector<ModelFacts>& models,
                     const std::string& instead, Problems& problems) {
  for (const ModelFacts& model : models) {
    if (model.config.has_tokenizer() && !model.tokenizer_hash.empty()) {
      continue;
    }
    problems.Add(
        path, model.name,
        absl::StrCat("model ", model.name,
                     model.tokenizer_hash.empty()
                         ? " has no tokenizer.json beside its weights, so no text can be fed to it; add one"
                         : " has a tokenizer.json that its worker cannot use, and the worker's log says why; "
                           "mend it",
                     instead));
  }
}

std::optional<CorpusFacts> ResolveCorpus(std::string& name, std::string& text_field, const std::string& path,
                                         const Facts& facts, Problems& problems) {
  if (name.empty()) {
    problems.Add(
        path + ".name", "",
        absl::StrCat("name the corpus: ", std::string(FindCorpus(facts.corpora, "").status().message())));
    return std::nullopt;
  }
  absl::StatusOr<CorpusFacts> corpus = FindCorpus(facts.corpora, name);
  if (!corpus.ok()) {
    problems.Add(path + ".name", name, std::string(corpus.status().message()));
    return std::nullopt;
  }
  ResolveTextField(text_field, path + ".text_field", *corpus, problems);
  name = CorpusLabel(*corpus);
  return *std::move(corpus);
}

void ResolveCorpusPrompts(v1::CorpusPrompts& prompts, const std::string& path, const Facts& facts,
                          Problems& problems) {
  const bool count_typed = prompts.has_count();
  prompts.set_count(count_typed ? prompts.count() : kDefaultPrompts);
  const bool typed = prompts.has_tokens();
  prompts.set_tokens(typed ? prompts.tokens() : kDefaultTokens);
  CheckCount(prompts.count(), path + ".count", problems);
  CheckTokens(prompts.tokens(), typed, path + ".tokens", facts.models, problems);
  CheckTokenizers(path, facts.models, kOtherSources, problems);
  ResolveBos(prompts, path + ".bos", facts.models, problems);
  const std::optional<CorpusFacts> corpus =
      ResolveCorpus(*prompts.mutable_name(), *prompts.mutable_text_field(), path, facts, problems);
  if (!corpus.has_value()) {
    return;
  }
  if (prompts.count() > corpus->documents) {
    problems.Add(
        path + ".count", absl::StrCat(prompts.count(), count_typed ? "" : " (the default)"),
        absl::StrCat(
            "corpus ", corpus->name, " has ", corpus->documents,
            corpus->documents == 1 ? " document" : " documents",
            ", and each gives one prompt; ask for fewer, or register a folder of texts or a .jsonl"));
  }
}

void ResolveGeneratedPrompts(v1::GeneratedPrompts& prompts, const std::string& path, const Facts& facts,
                             Problems& problems) {
  prompts.set_count(prompts.has_count() ? prompts.count() : kDefaultPrompts);
  const bool typed = prompts.has_tokens();
  prompts.set_tokens(typed ? prompts.tokens() : kDefaultTokens);
  CheckCount(prompts.count(), path + ".count", problems);
  CheckTokens(prompts.tokens(), typed, path + ".tokens", facts.models, problems);
  CheckTokenizers(path, facts.models, kOtherSources, problems);
  ResolveBos(prompts, path + ".bos", facts.models, problems);
}

}  // namespace ropelab::experiments
