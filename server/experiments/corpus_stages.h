// Which documents of a corpus become prompts: stages of TextLengths tasks before the one that measures.
//
// Per seed the documents stand in an order: 0, 1, 2, ... shuffled by Philox(key = [seed, purpose
// corpus_order], counter = [0, 0, 0, 0]). Stage k asks for the lengths of the first count * 2^(k-1) of them,
// as far as they were not asked for before, in tasks of at most 64; a seed and tokenizer that has its
// documents asks for no more. Prompts are the first `count` documents with enough tokens. Everything follows
// from the spec and the lengths, so planning again gives the same plan.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/experiments/experiment.h"

namespace ropelab::experiments {

inline constexpr int64_t kDocumentsPerTask = 64;

// For one model and seed.
struct CorpusChoice {
  std::vector<int64_t> documents;  // one per prompt, in order
  int64_t read = 0;                // of the order, up to and including the last prompt's
  int64_t skipped = 0;             // of these, with too few tokens
};

struct CorpusStages {
  std::string corpus;                 // SHA-256
  int64_t in_corpus = 0;              // documents
  int64_t lengths_stages = 0;         // complete ones
  StagePlan lengths;                  // the next stage of lengths; empty: all prompts are found
  std::vector<CorpusChoice> choices;  // then: model by model and seed by seed, as the spec names them
};

// What the stages before `stage` settle. FAILED_PRECONDITION when the corpus has too few documents of the
// length (says how many were found, needed and skipped, and the remedy) or is not registered any more;
// INTERNAL when a stage did not give a length that it was asked for.
absl::StatusOr<CorpusStages> FollowCorpus(const v1::CorpusPrompts& prompts, const v1::ExperimentSpec& spec,
                                          const Context& context, int64_t stage, StageReadings& readings);

// The order that a seed reads a corpus in.
std::vector<int64_t> CorpusOrder(uint64_t seed, int64_t documents);

// The block of prompts that the choice gives, one document a sample.
v1::PromptBlock CorpusBlockOf(const v1::CorpusPrompts& prompts, const std::string& corpus,
                              const CorpusChoice& choice, const ModelFacts& model, int64_t block);

}  // namespace ropelab::experiments
