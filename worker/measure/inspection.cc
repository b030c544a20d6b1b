// Inspection: named tensors of one short prompt, under edits where the request has some, as one safetensors
// file.
#include <ATen/Parallel.h>

#include <algorithm>
#include <optional>

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

// Token ids have no question.
absl::StatusOr<ReadEdits> EditsOf(const v1::InspectionTensors& request, const formats::ModelConfig& config) {
  return ReadInterventions(request.interventions(), "inspection.interventions", config,
                           /*question_start=*/std::nullopt);
}

}  // namespace

absl::StatusOr<Outcome> MeasureInspection(const v1::InspectionTensors& request,
                                          const model::LoadedModel& model, Recorder& recorder) {
  ROPELAB_ASSIGN_OR_RETURN(const ReadEdits edits, EditsOf(request, model.config));
  const engine::EditedLayers edited = MakeEditedLayers(model, edits.ranks);
  engine::ForwardOptions options;
  options.edited_layers = &edited;
  options.head_edits = &edits.heads;
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
  const int64_t plain = engine::InspectionBytes(model, tokens, names, threads);
  const auto edits = EditsOf(request, model.config);
  if (!edits.ok()) return plain;  // refused by MeasureInspection with a better word than a size
  return plain + engine::LowRankBytes(model, edits->ranks, threads) +
         engine::OwnKeyBytes(edits->heads, model.config, tokens);
}

}  // namespace ropelab::measure
