#include "server/experiments/prompt_cost.h"

#include "absl/strings/str_cat.h"
#include "server/experiments/corpus_stages.h"
#include "server/experiments/cost.h"
#include "server/experiments/prompts.h"

namespace ropelab::experiments {
namespace {

constexpr int64_t kBytesPerDocument = 8;  // its number and lengths, as varints
constexpr int64_t kBytesPerToken = 3;     // a sampled id as a varint

}  // namespace

double AddPromptStages(const v1::PromptSource& prompts, int64_t seeds, const ModelFacts& model,
                       std::set<std::string>& tokenizers, v1::Estimate& estimate) {
  const PromptShape shape = ShapeOf(prompts).value_or(PromptShape());
  if (NeedsSampling(prompts)) {
    estimate.set_tasks(estimate.tasks() + BlockCount(shape.count) * seeds);
    estimate.set_reading_bytes(estimate.reading_bytes() +
                               seeds * shape.count * shape.longest * kBytesPerToken);
    return static_cast<double>(seeds * shape.count) * ForwardFlops(model, shape.longest);
  }
  if (prompts.has_corpus() && tokenizers.insert(model.tokenizer_hash).second) {
    const int64_t tasks = (shape.count + kDocumentsPerTask - 1) / kDocumentsPerTask;
    estimate.set_tasks(estimate.tasks() + tasks * seeds);
    estimate.set_reading_bytes(estimate.reading_bytes() + seeds * shape.count * kBytesPerDocument);
  }
  return 0;
}

double PromptsFlops(const v1::PromptSource& prompts, absl::FunctionRef<double(int64_t tokens)> flops_of) {
  const PromptShape shape = ShapeOf(prompts).value_or(PromptShape());
  if (!prompts.has_token_ids()) {
    return static_cast<double>(shape.count) * flops_of(shape.longest);
  }
  double flops = 0;
  for (int64_t sample = 0; sample < shape.count; ++sample) {
    flops += flops_of(TokensOf(prompts, sample));
  }
  return flops;
}

double PromptsForwardFlops(const v1::PromptSource& prompts, const ModelFacts& model) {
  return PromptsFlops(prompts, [&](int64_t tokens) { return ForwardFlops(model, tokens); });
}

void AddPromptBasis(const v1::PromptSource& prompts, v1::Estimate& estimate) {
  if (prompts.has_corpus()) {
    estimate.set_basis(
        absl::StrCat(estimate.basis(),
                     "; as if every document were long enough: shorter ones are read and "
                     "skipped, which takes more tasks; reading and tokenizing are not counted"));
  } else if (prompts.has_generated()) {
    estimate.set_basis(absl::StrCat(estimate.basis(), "; tokenizing is not counted"));
  }
}

bool IsFoundLater(const v1::HeadSet& set) {
  return set.has_slash_dominant() || set.has_retrieval();
}

}  // namespace ropelab::experiments
