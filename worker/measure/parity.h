// The parity gate: a checkpoint measured against itself where no other implementation is at hand, and against
// the tensors of another implementation where they lie beside it. docs/operations.md says what each fact is.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "ropelab/v1/model.pb.h"

namespace ropelab::measure {

struct ParityOptions {
  std::string directory;
  at::ScalarType dtype = at::kFloat;  // of the checks of blocks, mapping and decoding
  std::string device = "cpu";
  std::vector<int64_t> prompt_tokens = {64, 600};  // clipped to the model's max_positions
  uint64_t seed = 42;                              // of the prompts' ids, uniform over the vocabulary
};

// Every fact, in the order in which they are found; `found` is told of each. A fact that does not hold makes
// `passed` false and is no error. Errors are those of loading, of a forward pass, and of an
// expected*.safetensors that cannot be read.
absl::StatusOr<v1::Verification> VerifyParity(const ParityOptions& options,
                                              absl::FunctionRef<void(const v1::VerifiedFact&)> found);

}  // namespace ropelab::measure
