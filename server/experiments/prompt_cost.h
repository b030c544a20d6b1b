// What an experiment's prompts take, for estimates: the stages that find them and the passes over them.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "absl/functional/function_ref.h"
#include "server/experiments/experiment.h"

namespace ropelab::experiments {

// Adds the tasks and bytes of the stages that find the prompts of one model (prompt_stages.h); returns their
// operations. `tokenizers`: whose stages are counted already; the model's comes to them.
double AddPromptStages(const v1::PromptSource& prompts, int64_t seeds, const ModelFacts& model,
                       std::set<std::string>& tokenizers, v1::Estimate& estimate);

// Operations over all prompts of a seed, of which one of `tokens` tokens takes `flops_of(tokens)`; where a
// tokenizer decides how long prompts become, each is taken for as long as the longest.
double PromptsFlops(const v1::PromptSource& prompts, absl::FunctionRef<double(int64_t tokens)> flops_of);
// Of one forward pass over each.
double PromptsForwardFlops(const v1::PromptSource& prompts, const ModelFacts& model);

// What of the prompts an estimate leaves out.
void AddPromptBasis(const v1::PromptSource& prompts, v1::Estimate& estimate);

// Whether an earlier experiment finds the heads of a set, so that how many there are is not known yet.
bool IsFoundLater(const v1::HeadSet& set);

}  // namespace ropelab::experiments
