#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/experiments/needles.h"
#include "server/experiments/prompt_rules.h"
#include "server/experiments/prompts.h"

namespace ropelab::experiments {

void CheckCount(int64_t count, const std::string& path, Problems& problems) {
  if (count < 1 || count > kMostPrompts) {
    problems.Add(path, absl::StrCat(count), absl::StrCat("the number of prompts is 1 to ", kMostPrompts));
  }
}

void CheckTokens(int64_t tokens, bool typed, const std::string& path, const std::vector<ModelFacts>& models,
                 Problems& problems) {
  if (tokens < 1 || tokens > kLongestPrompt) {
    problems.Add(path, absl::StrCat(tokens),
                 "a prompt has at least one token, and no more than its model takes");
    return;
  }
  for (const ModelFacts& model : models) {
    if (tokens > model.config.max_positions()) {
      problems.Add(path, absl::StrCat(tokens, typed ? "" : " (the default)"),
                   absl::StrCat("model ", model.name, " takes prompts of at most ",
                                model.config.max_positions(), " tokens"));
      return;
    }
  }
}

void CheckHasBos(const std::string& path, const std::vector<ModelFacts>& models, Problems& problems) {
  for (const ModelFacts& model : models) {
    if (!model.config.has_bos_token_id()) {
      problems.Add(path, "ALWAYS", absl::StrCat("model ", model.name, " has no BOS token in its config"));
      return;
    }
  }
}

v1::Bos::Value AsTokenizersDo(const std::vector<ModelFacts>& models) {
  const auto adds = [](const ModelFacts& model) { return model.config.tokenizer_adds_bos(); };
  if (models.empty() || std::none_of(models.begin(), models.end(), adds)) {
    return v1::Bos::NEVER;
  }
  return std::all_of(models.begin(), models.end(), adds) ? v1::Bos::ALWAYS : v1::Bos::AUTO;
}

namespace {

constexpr double kHighestTemperature = 100;

void ResolveUniform(v1::UniformTokens& uniform, const std::string& path,
                    const std::vector<ModelFacts>& models, Problems& problems) {
  uniform.set_count(uniform.has_count() ? uniform.count() : kDefaultPrompts);
  const bool typed = uniform.has_tokens();
  uniform.set_tokens(typed ? uniform.tokens() : kDefaultTokens);
  uniform.set_special_tokens(uniform.has_special_tokens() ? uniform.special_tokens() : true);
  CheckCount(uniform.count(), path + ".count", problems);
  CheckTokens(uniform.tokens(), typed, path + ".tokens", models, problems);
  if (!uniform.has_bos() || uniform.bos() == v1::Bos::AUTO) {
    uniform.set_bos(AsTokenizersDo(models));
  } else if (uniform.bos() == v1::Bos::ALWAYS) {
    CheckHasBos(path + ".bos", models, problems);
  }
  for (const ModelFacts& model : models) {
    const int64_t excluded = uniform.special_tokens() ? 0 : model.config.special_token_ids_size();
    if (model.config.vocabulary() <= excluded) {
      problems.Add(path + ".special_tokens", "false",
                   absl::StrCat("leaves no token of model ", model.name, " to draw from"));
    } else if (!uniform.special_tokens() && excluded == 0) {
      problems.Warn(absl::StrCat(path, ".special_tokens: model ", model.name,
                                 " announces no special tokens, so false changes nothing"));
    }
  }
}

void ResolveSampled(v1::SampledPrompts& sampled, const std::string& path,
                    const std::vector<ModelFacts>& models, Problems& problems) {
  sampled.set_count(sampled.has_count() ? sampled.count() : kDefaultPrompts);
  const bool typed = sampled.has_tokens();
  sampled.set_tokens(typed ? sampled.tokens() : kDefaultTokens);
  sampled.set_temperature(sampled.has_temperature() ? sampled.temperature() : 1.0);
  CheckCount(sampled.count(), path + ".count", problems);
  CheckTokens(sampled.tokens(), typed, path + ".tokens", models, problems);
  if (!(sampled.temperature() > 0) || sampled.temperature() > kHighestTemperature) {
    problems.Add(path + ".temperature", absl::StrCat(sampled.temperature()),
                 absl::StrCat("must be above 0 (at 0 every prompt would be the same) and at most ",
                              kHighestTemperature, "; 1 is the model's own distribution"));
  }
  if (sampled.has_bos() && sampled.bos() == v1::Bos::NEVER) {
    problems.Add(path + ".bos", "NEVER", "sampling starts at BOS; say ALWAYS or leave it out");
    return;
  }
  if (!sampled.has_bos() || sampled.bos() == v1::Bos::AUTO) {
    sampled.set_bos(v1::Bos::ALWAYS);
  }
  CheckHasBos(path + ".bos", models, problems);
}

void CheckIds(const v1::TokenIds& prompt, const std::string& path, const std::vector<ModelFacts>& models,
              Problems& problems) {
  if (prompt.ids_size() == 0) {
    problems.Add(path + ".ids", "", "a prompt has at least one token");
    return;
  }
  CheckTokens(prompt.ids_size(), true, path + ".ids", models, problems);
  for (const ModelFacts& model : models) {
    for (int i = 0; i < prompt.ids_size(); ++i) {
      if (prompt.ids(i) < 0 || prompt.ids(i) >= model.config.vocabulary()) {
        problems.Add(absl::StrCat(path, ".ids[", i, "]"), absl::StrCat(prompt.ids(i)),
                     absl::StrCat("is outside the vocabulary of model ", model.name, ": 0 to ",
                                  model.config.vocabulary() - 1));
        break;  // the first one tells enough
      }
    }
  }
}

void ResolveGiven(const v1::TokenIdPrompts& given, const std::string& path, const v1::ExperimentSpec& spec,
                  const std::vector<ModelFacts>& models, Problems& problems) {
  if (given.prompts_size() == 0) {
    problems.Add(path + ".prompts", "", "give at least one prompt");
  }
  for (int i = 0; i < given.prompts_size(); ++i) {
    CheckIds(given.prompts(i), absl::StrCat(path, ".prompts[", i, "]"), models, problems);
  }
  if (spec.seeds_size() > 1) {
    problems.Add("seeds", absl::StrCat(spec.seeds_size(), " seeds"),
                 "make no difference to given token ids; name one or none");
  }
}

}  // namespace

void ResolvePrompts(v1::PromptSource& source, const std::string& path, const v1::ExperimentSpec& spec,
                    const Facts& facts, Problems& problems) {
  const std::vector<ModelFacts>& models = facts.models;
  switch (source.source_case()) {
    case v1::PromptSource::kUniformTokens:
      return ResolveUniform(*source.mutable_uniform_tokens(), path + ".uniform_tokens", models, problems);
    case v1::PromptSource::kSampled:
      return ResolveSampled(*source.mutable_sampled(), path + ".sampled", models, problems);
    case v1::PromptSource::kTokenIds:
      return ResolveGiven(source.token_ids(), path + ".token_ids", spec, models, problems);
    case v1::PromptSource::kCorpus:
      return ResolveCorpusPrompts(*source.mutable_corpus(), path + ".corpus", facts, problems);
    case v1::PromptSource::kGenerated:
      return ResolveGeneratedPrompts(*source.mutable_generated(), path + ".generated", facts, problems);
    case v1::PromptSource::kNeedle:
      return ResolveNeedles(*source.mutable_needle(), path + ".needle", NeedleDefaults(), spec, facts,
                            problems);
    case v1::PromptSource::SOURCE_NOT_SET:
      return problems.Add(
          path, "",
          "say where the prompts come from: corpus, generated, uniform_tokens, sampled, token_ids or needle");
  }
}

std::optional<PromptShape> ShapeOf(const v1::PromptSource& source) {
  PromptShape shape;
  if (source.has_uniform_tokens()) {
    const v1::UniformTokens& uniform = source.uniform_tokens();
    shape = {uniform.count(), uniform.tokens(), uniform.tokens()};
  } else if (source.has_sampled()) {
    shape = {source.sampled().count(), source.sampled().tokens(), source.sampled().tokens()};
  } else if (source.has_corpus()) {
    shape = {source.corpus().count(), source.corpus().tokens(), source.corpus().tokens()};
  } else if (source.has_generated()) {
    shape = {source.generated().count(), source.generated().tokens(), source.generated().tokens()};
  } else if (source.has_needle() && NeedleCount(source.needle()) > 0) {
    // A tokenizer decides how long its prompts become; the worker refuses one of less than half its length.
    const auto& lengths = source.needle().context_lengths();
    const auto [least, most] = std::minmax_element(lengths.begin(), lengths.end());
    shape = {NeedleCount(source.needle()), (*least + 1) / 2, *most};
  } else if (source.has_token_ids() && source.token_ids().prompts_size() > 0) {
    shape.count = source.token_ids().prompts_size();
    shape.shortest = shape.longest = source.token_ids().prompts(0).ids_size();
    for (const v1::TokenIds& prompt : source.token_ids().prompts()) {
      shape.shortest = std::min<int64_t>(shape.shortest, prompt.ids_size());
      shape.longest = std::max<int64_t>(shape.longest, prompt.ids_size());
    }
  }
  const bool sane = shape.count >= 1 && shape.count <= kMostPrompts && shape.shortest >= 1 &&
                    shape.longest <= kLongestPrompt;
  return sane ? std::optional<PromptShape>(shape) : std::nullopt;
}

}  // namespace ropelab::experiments
