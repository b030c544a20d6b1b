// How a spec names a model, and what of it a planner needs.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/experiments/experiment.h"

namespace ropelab::experiments {

// Finds "name" or "name@hash" among all that were ever announced. `hash` is a prefix (at least 8 hex digits)
// of the weights hash, or of the config hash while the weights are not hashed yet, or of the tokenizer's hash
// ("none" where there is none); a second @hash may follow where one is not enough. A name alone that stands
// for several is refused: nobody's tokenizer is taken by chance. The message of an error is a remedy:
// NOT_FOUND lists the known names and says which was probably meant, INVALID_ARGUMENT what a name stands for,
// as it may be written, FAILED_PRECONDITION gives the announced problem.
absl::StatusOr<ModelFacts> FindModel(const std::vector<ModelFacts>& known, const std::string& name);

// How the resolved spec and the result tables name it: as typed, each hash cut or completed to 16 digits.
std::string ModelLabel(const std::string& typed, const ModelFacts& model);

// The dtype that the weights are loaded in: the spec's, else the checkpoint's own.
v1::Dtype::Value DtypeOf(const v1::ExperimentSpec& spec, const ModelFacts& model);

// What a task names the model by. FAILED_PRECONDITION while the weights hash is not known.
absl::StatusOr<v1::ModelIdentity> IdentityOf(const v1::ExperimentSpec& spec, const ModelFacts& model);

}  // namespace ropelab::experiments
