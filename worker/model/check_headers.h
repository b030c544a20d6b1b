// Whether a checkpoint holds the model that its config describes, by names, dtypes and shapes alone: for the
// loader before it reads a weight, and for whoever only tells of a model. No torch here.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "worker/formats/checkpoint.h"
#include "worker/formats/families.h"
#include "worker/formats/model_config.h"

namespace ropelab::model {

// The names of config.family as this checkpoint uses them: some tools keep only lm_head of the two names of
// a tied matrix.
formats::WeightNames StoredNames(const formats::Checkpoint& checkpoint, const formats::ModelConfig& config);

// INVALID_ARGUMENT names file and tensor: one that WeightSlots lists and the checkpoint lacks, of another
// shape, or of a dtype that is no float of 16 or 32 bits; one that the config does not account for (a bias or
// a layer that would silently be left out); a tied matrix stored twice whose dtypes or shapes differ. No page
// of a weight is touched; a model of thousands of tensors takes milliseconds.
absl::Status CheckHeaders(const formats::Checkpoint& checkpoint, const std::string& directory,
                          const formats::ModelConfig& config);

// The error for the two stored tensors of a tied matrix that are not the same.
absl::Status TiedNamesDiffer(const std::string& directory, const formats::TensorEntry& embedding,
                             const formats::TensorEntry& output);

}  // namespace ropelab::model
