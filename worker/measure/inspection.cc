// Inspection: named tensors of one short prompt, as one safetensors file.
#include <ATen/Parallel.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/engine/tensor_recorder.h"
#include "worker/measure/kinds.h"
#include "worker/measure/prompts.h"
#include "worker/measure/tensor_file.h"

namespace ropelab::measure {
namespace {

constexpr char kArtifact[] = "tensors.safetensors";

const char* EditName(const v1::Intervention& edit) {
  switch (edit.edit_case()) {
    case v1::Intervention::kZeroHead:
      return "zero_head";
    case v1::Intervention::kZeroDims:
      return "zero_dims";
    case v1::Intervention::kUnrotate:
      return "unrotate";
    case v1::Intervention::kScaleDims:
      return "scale_dims";
    case v1::Intervention::kLowRank:
      return "low_rank";
    case v1::Intervention::EDIT_NOT_SET:
      break;
  }
  return "an edit of a kind that is not known here";
}

}  // namespace

absl::StatusOr<Outcome> MeasureInspection(const v1::InspectionTensors& request,
                                          const model::LoadedModel& model, Recorder& recorder) {
  if (request.interventions_size() > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("this engine applies no interventions, and the inspection asks for ",
                     EditName(request.interventions(0)), "; leave interventions out"));
  }
  const TokenIds ids(request.token_ids().ids().begin(), request.token_ids().ids().end());
  const std::vector<std::string> names(request.dump().begin(), request.dump().end());
  ROPELAB_ASSIGN_OR_RETURN(const auto tensors, engine::InspectPrompt(model, ids, names, {}));
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
  return engine::InspectionBytes(model, tokens, names, at::get_num_threads());
}

}  // namespace ropelab::measure
