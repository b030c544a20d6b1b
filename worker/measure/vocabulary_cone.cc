#include "worker/measure/vocabulary_cone.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "common/philox.h"
#include "worker/measure/weight_one_thread.h"

namespace ropelab::measure {
namespace {

constexpr int64_t kAxesPerItem = 8;

size_t BinOf(double cosine) {
  const double bin = std::floor((cosine + 1) * (static_cast<double>(kCosineBins) / 2));
  // A cosine may pass 1 by rounding.
  return static_cast<size_t>(std::clamp(bin, 0.0, static_cast<double>(kCosineBins - 1)));
}

}  // namespace

void AxisSums::Add(double projection, double length) {
  ++tokens_;
  const double away = projection - mean_;
  mean_ += away / static_cast<double>(tokens_);
  m2_ += away * (projection - mean_);
  if (!(length > 0)) return;
  const double cosine = projection / length;
  cosines_ += cosine;
  ++counts_[BinOf(cosine)];
  ++turned_[BinOf(-cosine)];
}

double AxisSums::RelativeVariation() const {
  return std::sqrt(m2_ / static_cast<double>(tokens_ - 1)) / std::abs(mean_);
}

ConeSums::ConeSums(const at::Tensor& axes) : axes_(axes), sums_(static_cast<size_t>(axes.size(0))) {}

void ConeSums::Add(const VocabularyRows& rows) {
  const double* lengths = rows.cone_norm.data_ptr<double>();
  EachOnOneThread((axes_.size(0) + kAxesPerItem - 1) / kAxesPerItem, [&](int64_t item) {
    const int64_t first = item * kAxesPerItem;
    const int64_t count = std::min(kAxesPerItem, axes_.size(0) - first);
    const at::Tensor products = at::mm(axes_.narrow(0, first, count), rows.cone_x.t()).contiguous();
    for (int64_t axis = 0; axis < count; ++axis) {
      const double* projections = products.data_ptr<double>() + axis * products.size(1);
      for (int64_t row = 0; row < products.size(1); ++row) {
        sums_[first + axis].Add(projections[row], lengths[row]);
      }
    }
  });
}

at::Tensor RandomAxes(uint64_t seed, int64_t vectors, int64_t dimensions) {
  at::Tensor axes = at::empty({vectors, dimensions}, at::kDouble);
  for (int64_t r = 0; r < vectors; ++r) {
    Philox(seed, Purpose::kCone, static_cast<uint64_t>(r))
        .Normals(std::span(axes.data_ptr<double>() + r * dimensions, static_cast<size_t>(dimensions)));
  }
  return axes;
}

}  // namespace ropelab::measure
