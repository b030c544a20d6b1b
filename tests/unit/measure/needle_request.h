// Requests for needle prompts that lie in the neutral sentences, and a model that reads bytes.
#pragma once

#include <string>
#include <vector>

#include "ropelab/v1/measurement.pb.h"
#include "tests/unit/engine/made_model.h"

namespace ropelab::measure {

// A block of needles of `count` samples from number 8 on, each of `tokens` tokens at most.
inline v1::PromptBlock NeedleBlock(int count, int64_t tokens = 200, const std::string& alphabet = "ABCDEFGH",
                                   int64_t code_length = 5) {
  v1::PromptBlock block;
  block.mutable_samples()->set_first_sample(8);
  block.mutable_samples()->set_count(count);
  v1::NeedlePrompts& needle = *block.mutable_needle();
  needle.set_seed(42);
  needle.set_use(v1::NeedlePrompts::TEST);
  needle.set_needle_text("The secret passphrase is CODE.");
  needle.set_question_text("\n\nWhat is the secret passphrase?\n\nAnswer:");
  needle.set_code_alphabet(alphabet);
  needle.set_code_length(code_length);
  for (int i = 0; i < count; ++i) {
    v1::NeedleSample& sample = *needle.add_samples();
    sample.set_context_length(tokens);
    sample.set_depth(0.25 * (i % 4));
    sample.set_index(i);
  }
  return block;
}

// Ids are bytes.
inline formats::ModelConfig ByteConfig() {
  formats::ModelConfig config = engine::SmallConfig();
  config.vocabulary = 256;
  config.sliding_window = {0, 64};
  return config;
}

}  // namespace ropelab::measure
