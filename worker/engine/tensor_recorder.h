// Keeps the named tensors of one prompt for comparison with another implementation (INTERFACE.md, `inspect`).
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/engine/decoder.h"
#include "worker/engine/observer.h"

namespace ropelab::engine {

// Every name that can be asked for, in the order in which files hold them.
const std::vector<std::string>& TensorNames();
// INVALID_ARGUMENT naming the first unknown name and the known ones; also when `names` is empty.
absl::Status CheckTensorNames(const std::vector<std::string>& names);

// input_ids [T] int64; logits [T,V]; attn_probs [L,H,T,T]; q_pre [L,H,T,D], k_pre [L,G,T,D] (after bias
// and q/k norm, before RoPE); q_rot, k_rot (after it, with its attention factor); hidden [L+1,T,d] (each
// block's input, the embedding's scale included, then the last block's output before the final norm);
// inv_freq [D/2] fp32, of this prompt's length. Floating tensors are in the model's dtype. On the CPU,
// contiguous. Memory grows with T^2: for short prompts. Errors: CheckTensorNames', Forward's, and
// FAILED_PRECONDITION for logits that are not finite.
absl::StatusOr<std::map<std::string, at::Tensor>> InspectPrompt(const model::LoadedModel& model,
                                                                std::span<const int32_t> ids,
                                                                const std::vector<std::string>& names,
                                                                const ForwardOptions& options);

// Bytes that InspectPrompt allocates beside the weights: the tensors named, once more for the file, and the
// forward pass.
int64_t InspectionBytes(const model::LoadedModel& model, int64_t tokens,
                        const std::vector<std::string>& names, int threads);

}  // namespace ropelab::engine
