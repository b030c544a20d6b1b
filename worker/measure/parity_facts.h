// Collects what the parity gate finds.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ropelab/v1/model.pb.h"

namespace ropelab::measure {

// The largest value seen and its place. A value that is no number counts as the largest there is.
struct Worst {
  double value = 0;
  std::string where;
  void See(double seen, const std::string& place);
  void See(const Worst& other) { See(other.value, other.where); }
};

class FactList {
 public:
  explicit FactList(std::function<void(const v1::VerifiedFact&)> found) : found_(std::move(found)) {}

  // Passes when the value is at most `bound`, which is not negative.
  void Bounded(const std::string& name, const Worst& worst, double bound, const std::string& unit);
  // Is told and always passes.
  void Reported(const std::string& name, const Worst& worst, const std::string& unit);
  v1::Verification Take(const std::string& device);

 private:
  void Add(const std::string& name, const Worst& worst, double bound, const std::string& unit);

  std::function<void(const v1::VerifiedFact&)> found_;
  v1::Verification verification_;
};

// The largest |got - wanted|. `axes` names the tensor's dimensions in the place ("layer", "head", ...), after
// `prefix`. Tensors of different shapes are infinitely far apart.
Worst AbsoluteDistance(const at::Tensor& got, const at::Tensor& wanted, const std::vector<std::string>& axes,
                       const std::string& prefix);

// The same, each row (last dimension) in units of its own largest |wanted|; rows below a thousandth of the
// tensor's largest entry count as that large. So neither a few huge rows nor small weights hide an error.
Worst RelativeDistance(const at::Tensor& got, const at::Tensor& wanted, const std::vector<std::string>& axes,
                       const std::string& prefix);

}  // namespace ropelab::measure
