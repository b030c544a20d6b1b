#include "worker/train/adamw.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace ropelab::train {

double LearningRate(const AdamWRule& rule, int64_t done, int64_t steps) {
  const double warm = std::min(1.0, static_cast<double>(done + 1) / static_cast<double>(rule.warmup));
  const double part = static_cast<double>(done) / static_cast<double>(steps);
  const double cosine = 0.5 * (1 + std::cos(std::numbers::pi * part));
  return rule.rate * warm * (rule.last_share + (1 - rule.last_share) * cosine);
}

AdamW::AdamW(const AdamWRule& rule, std::vector<at::Tensor> parameters)
    : rule_(rule), parameters_(std::move(parameters)) {
  for (const at::Tensor& parameter : parameters_) {
    first_.push_back(at::zeros(parameter.sizes(), at::kFloat));
    second_.push_back(at::zeros(parameter.sizes(), at::kFloat));
  }
}

double AdamW::Step(int64_t done, double rate) {
  const at::NoGradGuard no_gradients;
  double square = 0;
  for (const at::Tensor& parameter : parameters_) {
    square += parameter.grad().square().sum().item<double>();
  }
  const double norm = std::sqrt(square);
  const double scale = norm > rule_.clip ? rule_.clip / norm : 1;
  const auto steps = static_cast<double>(done + 1);
  const double first_share = 1 - std::pow(rule_.beta1, steps);
  const double second_share = 1 - std::pow(rule_.beta2, steps);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor parameter = parameters_[i];
    const at::Tensor gradient = parameter.grad() * scale;
    first_[i].mul_(rule_.beta1).add_(gradient, 1 - rule_.beta1);
    second_[i].mul_(rule_.beta2).addcmul_(gradient, gradient, 1 - rule_.beta2);
    if (parameter.dim() == 2) parameter.mul_(1 - rate * rule_.weight_decay);
    const at::Tensor spread = (second_[i] / second_share).sqrt_().add_(rule_.epsilon);
    parameter.addcdiv_(first_[i], spread, -rate / first_share);
    parameter.mutable_grad().reset();
  }
  return norm;
}

}  // namespace ropelab::train
