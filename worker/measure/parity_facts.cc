#include "worker/measure/parity_facts.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"

namespace ropelab::measure {
namespace {

constexpr double kNoNumber = std::numeric_limits<double>::max();

// The largest entry of `distances` (double, >= 0 or no number) and its place.
Worst LargestOf(const at::Tensor& distances, const std::vector<std::string>& axes,
                const std::string& prefix) {
  if (distances.numel() == 0) return {};
  const at::Tensor flat = at::nan_to_num(distances, kNoNumber, kNoNumber, kNoNumber).flatten();
  int64_t index = flat.argmax().item<int64_t>();
  Worst worst{flat[index].item<double>(), ""};
  std::string place;
  for (int64_t axis = distances.dim(); axis-- > 0;) {
    place = absl::StrCat(axes.at(static_cast<size_t>(axis)), " ", index % distances.size(axis),
                         place.empty() ? "" : ", ", place);
    index /= distances.size(axis);
  }
  worst.where = absl::StrCat(prefix, prefix.empty() ? "" : ", ", place);
  return worst;
}

Worst WrongShape(const at::Tensor& got, const at::Tensor& wanted, const std::string& prefix) {
  const auto shape = [](const at::Tensor& tensor) {
    std::string text;
    for (const int64_t size : tensor.sizes()) absl::StrAppend(&text, text.empty() ? "" : ", ", size);
    return absl::StrCat("[", text, "]");
  };
  return {kNoNumber,
          absl::StrCat(prefix, prefix.empty() ? "" : ", ", "shape ", shape(got), ", wanted ", shape(wanted))};
}

}  // namespace

void Worst::See(double seen, const std::string& place) {
  if (!std::isfinite(seen)) seen = kNoNumber;
  if (where.empty() || seen > value) {
    value = seen;
    where = place;
  }
}

void FactList::Bounded(const std::string& name, const Worst& worst, double bound, const std::string& unit) {
  Add(name, worst, bound, unit);
}

void FactList::Reported(const std::string& name, const Worst& worst, const std::string& unit) {
  Add(name, worst, -1, unit);
}

void FactList::Add(const std::string& name, const Worst& worst, double bound, const std::string& unit) {
  v1::VerifiedFact& fact = *verification_.add_facts();
  fact.set_name(name);
  fact.set_value(worst.value);
  fact.set_bound(bound);
  fact.set_unit(unit);
  fact.set_where(worst.where);
  fact.set_passed(bound < 0 || worst.value <= bound);
  found_(fact);
}

v1::Verification FactList::Take(const std::string& device) {
  verification_.set_passed(true);
  for (const v1::VerifiedFact& fact : verification_.facts()) {
    if (!fact.passed()) verification_.set_passed(false);
  }
  verification_.set_device(device);
  return std::move(verification_);
}

Worst AbsoluteDistance(const at::Tensor& got, const at::Tensor& wanted, const std::vector<std::string>& axes,
                       const std::string& prefix) {
  if (got.sizes() != wanted.sizes()) return WrongShape(got, wanted, prefix);
  return LargestOf((got.to(at::kDouble) - wanted.to(at::kDouble)).abs(), axes, prefix);
}

Worst RelativeDistance(const at::Tensor& got, const at::Tensor& wanted, const std::vector<std::string>& axes,
                       const std::string& prefix) {
  if (got.sizes() != wanted.sizes()) return WrongShape(got, wanted, prefix);
  if (wanted.numel() == 0) return {};
  const at::Tensor wide = wanted.to(at::kDouble);
  const at::Tensor rows = wide.abs().amax({-1}, /*keepdim=*/true);
  const double floor = std::max(1e-3 * rows.max().item<double>(), 1e-30);
  return LargestOf((got.to(at::kDouble) - wide).abs() / rows.clamp_min(floor), axes, prefix);
}

}  // namespace ropelab::measure
