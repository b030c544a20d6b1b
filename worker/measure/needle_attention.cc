#include "worker/measure/kinds.h"

namespace ropelab::measure {

absl::StatusOr<Outcome> MeasureNeedleAttention(const v1::NeedleAttention&, const Resources&, Recorder&) {
  return absl::UnimplementedError("needle_attention is not built");
}

int64_t NeedleAttentionBytes(const v1::NeedleAttention&, const model::LoadedModel&) {
  return 0;
}

}  // namespace ropelab::measure
