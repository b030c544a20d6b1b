// Prompts whose ids come from text.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/measure/measurement.h"
#include "worker/measure/prompts.h"

namespace ropelab::measure {

// A tokenizer of another model makes ids that this one's embedding has no row for: INVALID_ARGUMENT. `text`
// is what the message calls the prompt.
absl::Status CheckRows(const TokenIds& ids, const std::string& text, const formats::ModelConfig& config);

// One prompt for each document, cut to exactly the request's tokens. INVALID_ARGUMENT names the document that
// is shorter or not as it should be.
absl::StatusOr<std::vector<TokenIds>> CorpusPrompts(const v1::CorpusDocuments& request,
                                                    const v1::SampleBlock& samples,
                                                    const formats::ModelConfig& config,
                                                    const formats::Tokenizer& tokenizer, Texts& texts);

// Generated sentences, joined by a space: 8, then 16, 32, ... of them until the text has at least the ids
// that are needed, then two more; the whole is tokenized and cut.
absl::StatusOr<std::vector<TokenIds>> GeneratedPrompts(const v1::GeneratedText& request,
                                                       const v1::SampleBlock& samples,
                                                       const formats::ModelConfig& config,
                                                       const formats::Tokenizer& tokenizer);

}  // namespace ropelab::measure
