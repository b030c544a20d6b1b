// Inspection: named tensors of one short prompt, under edits where the request has some, as one safetensors
// file.
#include <ATen/Parallel.h>

#include <algorithm>

#include "common/status_macros.h"
#include "worker/engine/edited_weights.h"
#include "worker/engine/tensor_recorder.h"
#include "worker/measure/condition_edits.h"
#include "worker/measure/kinds.h"
#include "worker/measure/prompts.h"
#include "worker/measure/tensor_file.h"

namespace ropelab::measure {
namespace {

constexpr char kArtifact[] = "tensors.safetensors";

absl::StatusOr<engine::LowRanks> ReadEdits(const v1::InspectionTensors& request,
                                           const formats::ModelConfig& config) {
  return ReadLowRanks(request.interventions(), "inspection.interventions", config);
}

}  // namespace

absl::StatusOr<Outcome> MeasureInspection(const v1::InspectionTensors& request,
                                          const model::LoadedModel& model, Recorder& recorder) {
  ROPELAB_ASSIGN_OR_RETURN(const engine::LowRanks edits, ReadEdits(request, model.config));
  engine::EditedLayers edited;
  for (const auto& [matrix, rank] : edits) {
    if (!edited.contains(matrix.layer))
      edited[matrix.layer] = engine::LowRankLayer(model, matrix.layer, edits);
  }
  engine::ForwardOptions options;
  options.edited_layers = &edited;
  const TokenIds ids(request.token_ids().ids().begin(), request.token_ids().ids().end());
  const std::vector<std::string> names(request.dump().begin(), request.dump().end());
  ROPELAB_ASSIGN_OR_RETURN(const auto tensors, engine::InspectPrompt(model, ids, names, options));
  v1::Reading reading;
  reading.mutable_inspected()->set_artifact(kArtifact);
  for (const std::string& name : engine::TensorNames()) {
    if (tensors.contains(name)) reading.mutable_inspected()->add_tensors(name);
  }
  ROPELAB_RETURN_IF_ERROR(recorder.Progress(1, 1));
  ROPELAB_RETURN_IF_ERROR(
      recorder.Emit(std::move(reading), {{kArtifact, TensorFile(tensors, engine::TensorNames())}}));
  return Outcome{FedIdsDigest({ids})};
}

int64_t InspectionTensorsBytes(const v1::InspectionTensors& request, const model::LoadedModel& model) {
  const std::vector<std::string> names(request.dump().begin(), request.dump().end());
  const int64_t tokens = std::min<int64_t>(request.token_ids().ids_size(), model.config.max_positions);
  const int threads = at::get_num_threads();
  const auto edits = ReadEdits(request, model.config);
  return engine::InspectionBytes(model, tokens, names, threads) +
         (edits.ok() ? engine::LowRankBytes(model, *edits, threads) : 0);
}

}  // namespace ropelab::measure
