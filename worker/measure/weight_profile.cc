#include "worker/measure/kinds.h"

namespace ropelab::measure {

absl::StatusOr<Outcome> MeasureWeightProfile(const v1::WeightProfile&, const model::LoadedModel&, Recorder&) {
  return absl::UnimplementedError("weight_profile");
}

int64_t WeightProfileBytes(const v1::WeightProfile&, const model::LoadedModel&) {
  return 0;
}

}  // namespace ropelab::measure
