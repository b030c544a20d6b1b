#include "worker/measure/kinds.h"

namespace ropelab::measure {

absl::StatusOr<Outcome> MeasureQueryKeyProfile(const v1::QueryKeyProfile&, const Resources&, Recorder&) {
  return absl::UnimplementedError("query_key_profile");
}

int64_t QueryKeyProfileBytes(const v1::QueryKeyProfile&, const model::LoadedModel&) {
  return 0;
}

}  // namespace ropelab::measure
