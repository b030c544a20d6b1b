#include "worker/measure/kinds.h"

namespace ropelab::measure {

absl::StatusOr<Outcome> MeasureFrequencyFits(const v1::FrequencyFits&, const Resources&, Recorder&) {
  return absl::UnimplementedError("frequency_fits");
}

int64_t FrequencyFitsBytes(const v1::FrequencyFits&, const model::LoadedModel&) {
  return 0;
}

}  // namespace ropelab::measure
