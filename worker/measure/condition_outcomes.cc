#include "worker/measure/kinds.h"

namespace ropelab::measure {

absl::StatusOr<Outcome> MeasureConditionOutcomes(const v1::ConditionOutcomes&, const Resources&, Recorder&) {
  return absl::UnimplementedError("condition_outcomes");
}

int64_t ConditionOutcomesBytes(const v1::ConditionOutcomes&, const model::LoadedModel&) {
  return 0;
}

}  // namespace ropelab::measure
