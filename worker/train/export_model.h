// A model's folder as Hugging Face publishes it.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "worker/train/recipe.h"
#include "worker/train/trainable_model.h"

namespace ropelab::train {

// config.json, ends in a newline.
std::string ConfigJson(const Recipe& recipe, int64_t vocabulary);

// Writes config.json, tokenizer.json and model.safetensors (recipe.dtype) into `directory`, which is made if
// missing; each file is replaced in one step, the weights last. Errors name the path; FAILED_PRECONDITION
// names a weight that is not finite or too large for the dtype.
absl::Status ExportModel(const std::string& directory, const Recipe& recipe, const TrainableModel& model,
                         int64_t vocabulary, const std::string& tokenizer_json);

}  // namespace ropelab::train
