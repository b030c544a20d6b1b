// Which checkpoints lie under the models roots, and what the server is told of each.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ropelab/v1/model.pb.h"

namespace ropelab::session {

struct FoundModel {
  std::string name;       // the directory's name
  std::string directory;  // path
};

// Directories with a config.json directly under the roots, sorted by name. A name under two roots belongs to
// the first root; the other is left out with a warning, as is a directory with weights and no config.json. A
// root that cannot be read is INVALID_ARGUMENT.
absl::StatusOr<std::vector<FoundModel>> FindModels(const std::vector<std::string>& roots);
// The models' names and their files' stamps, and those of the parity gate's reports under `cache_dir`,
// without reading a weight: differs when announcements would.
std::string ModelsStamp(const std::vector<std::string>& roots, const std::string& cache_dir);
// What to tell whoever started a worker that found none; a root that is itself a model is named.
std::string NoModelsAdvice(const std::vector<std::string>& roots);
// NOT_FOUND names the roots.
absl::StatusOr<FoundModel> FindModel(const std::vector<std::string>& roots, const std::string& name);

// Everything but the weights' bytes is read here; a weights hash that `cache_dir` knows for the files as they
// are is announced, an unknown one is left to be asked for. What does not parse, or lacks a tensor that
// loading would ask for (model::CheckHeaders), is announced with its problem; a tokenizer that does not parse
// is warned of, and the model announced without one.
v1::ModelAnnouncement Announce(const FoundModel& model, const std::string& cache_dir);

}  // namespace ropelab::session
