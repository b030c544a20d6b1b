#include "server/experiments/cost.h"

#include "absl/strings/str_format.h"

namespace ropelab::experiments {

double ForwardFlops(const ModelFacts& model, int64_t tokens) {
  const double n = static_cast<double>(tokens);
  const double width = static_cast<double>(model.config.query_heads() * model.config.head_dim());
  const double attention = 2 * static_cast<double>(model.config.layers()) * width * n * n;
  return 2 * static_cast<double>(model.config.parameters()) * n + attention;
}

void SetDeviceSeconds(double flops, v1::Estimate& estimate) {
  estimate.set_device_seconds(flops / kStatedFlops);
  estimate.set_basis(
      absl::StrFormat("%.3g operations at %.3g a second; two operations per parameter and token, and causal "
                      "attention; loading is not counted",
                      flops, kStatedFlops));
}

}  // namespace ropelab::experiments
