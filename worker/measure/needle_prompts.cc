#include "worker/measure/needle_prompts.h"

namespace ropelab::measure {

absl::StatusOr<std::vector<RealisedNeedle>> RealiseNeedles(const v1::NeedlePrompts&, const v1::SampleBlock&,
                                                           const Resources&) {
  return absl::UnimplementedError("needle prompts are not built");
}

absl::StatusOr<std::vector<TokenIds>> NeedlePromptIds(const v1::NeedlePrompts&, const v1::SampleBlock&,
                                                      const formats::ModelConfig&, const Resources&) {
  return absl::UnimplementedError("needle prompts are not built");
}

absl::StatusOr<ForcedAnswer> ForceAnswer(const RealisedNeedle&, const formats::Tokenizer&) {
  return absl::UnimplementedError("needle prompts are not built");
}

}  // namespace ropelab::measure
