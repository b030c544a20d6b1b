#include "worker/measure/kinds.h"

namespace ropelab::measure {

absl::StatusOr<Outcome> MeasureFrequencyProfile(const v1::FrequencyProfile&, const Resources&, Recorder&) {
  return absl::UnimplementedError("frequency_profile");
}

int64_t FrequencyProfileBytes(const v1::FrequencyProfile&, const model::LoadedModel&) {
  return 0;
}

}  // namespace ropelab::measure
