// Rules that several prompt sources share. For the files prompts_*_resolve.cc alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/experiments/experiment.h"

namespace ropelab::experiments {

inline constexpr int64_t kDefaultPrompts = 500;  // the slash paper, section 4
inline constexpr int64_t kDefaultTokens = 6000;  // the same
inline constexpr int64_t kMostPrompts = 1000000;
inline constexpr int64_t kLongestPrompt = int64_t{1} << 24;  // whatever a config claims

void CheckCount(int64_t count, const std::string& path, Problems& problems);
// Against the models' longest prompts. A refusal says whether the person `typed` the number or it is the
// default.
void CheckTokens(int64_t tokens, bool typed, const std::string& path, const std::vector<ModelFacts>& models,
                 Problems& problems);
// Every model's config must name a BOS token.
void CheckHasBos(const std::string& path, const std::vector<ModelFacts>& models, Problems& problems);
// What AUTO means: ALWAYS or NEVER as the tokenizers do; it stays AUTO only where the models' tokenizers
// differ.
v1::Bos::Value AsTokenizersDo(const std::vector<ModelFacts>& models);

// Every model must have a tokenizer that its worker can use. `instead` ends the remedy: what else could be
// done, or nothing.
void CheckTokenizers(const std::string& path, const std::vector<ModelFacts>& models,
                     const std::string& instead, Problems& problems);
// The corpus that `name` means, with `name` as a resolved spec has it and the default of `text_field`
// written; nullopt after a problem was added. `path` is that of the message which holds both.
std::optional<CorpusFacts> ResolveCorpus(std::string& name, std::string& text_field, const std::string& path,
                                         const Facts& facts, Problems& problems);

// The sources that need a tokenizer; paths are the source's own.
void ResolveCorpusPrompts(v1::CorpusPrompts& prompts, const std::string& path, const Facts& facts,
                          Problems& problems);
void ResolveGeneratedPrompts(v1::GeneratedPrompts& prompts, const std::string& path, const Facts& facts,
                             Problems& problems);

}  // namespace ropelab::experiments
