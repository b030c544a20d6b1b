#include "worker/measure/vocabulary_alignment.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace ropelab::measure {

AlignmentSums::AlignmentSums(const at::Tensor& weight, double energy) : energy_(energy) {
  const at::Tensor wide = weight.to(at::kCPU, at::kDouble);
  const at::Tensor u = engine::EigenOf(at::mm(wide, wide.t()), /*vectors=*/true).vectors;
  directions_ = at::mm(u.t(), wide);
  axis_energy_.assign(static_cast<size_t>(wide.size(0)), 0.0);
  energies_.resize(axis_energy_.size());
}

void AlignmentSums::AddToken(const double* along) {
  for (size_t m = 0; m < energies_.size(); ++m) energies_[m] = along[m] * along[m];
  std::sort(energies_.begin(), energies_.end(), std::greater<>());
  double total = 0;
  for (size_t m = energies_.size(); m-- > 0;) total += energies_[m];
  ++tokens_;
  norm_ += std::sqrt(total);
  if (!(total > 0)) return;  // no direction is nearer to it than another
  ++counted_;
  r1_ += energies_[0] / total;
  double sum = 0;
  size_t rank = 0;
  while (rank < energies_.size()) {
    sum += energies_[rank++];
    if (sum / total >= energy_) break;
  }
  rank_ += static_cast<double>(rank);
}

void AlignmentSums::Add(const VocabularyRows& rows, const at::Tensor& projected) {
  gram_.Add(projected);
  const at::Tensor along = at::mm(rows.x, directions_.t()).contiguous();
  const at::Tensor cone =
      rows.cone_x.is_same(rows.x) ? along : at::mm(rows.cone_x, directions_.t()).contiguous();
  const int64_t directions = along.size(1);
  for (int64_t row = 0; row < along.size(0); ++row) {
    AddToken(along.data_ptr<double>() + row * directions);
    const double* cone_row = cone.data_ptr<double>() + row * directions;
    for (int64_t m = 0; m < directions; ++m) axis_energy_[m] += cone_row[m] * cone_row[m];
  }
}

Alignment AlignmentSums::Finish() const {
  Alignment done;
  done.spectrum = engine::SpectrumOf(engine::EigenOf(gram_.sum(), /*vectors=*/false).values, energy_);
  done.r1 = r1_ / static_cast<double>(counted_);
  done.rank = rank_ / static_cast<double>(counted_);
  done.mean_norm = norm_ / static_cast<double>(tokens_);
  const auto largest = std::max_element(axis_energy_.begin(), axis_energy_.end());
  const at::Tensor direction = directions_[largest - axis_energy_.begin()];
  const double length = direction.norm().item<double>();
  done.axis = length > 0 ? direction / length : at::zeros_like(direction);
  return done;
}

}  // namespace ropelab::measure
