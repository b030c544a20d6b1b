#include "worker/train/shallow_transformer.h"

#include <limits>
#include <numbers>

namespace ropelab::train {
namespace {

at::Tensor Even(const at::Tensor& x) {
  return x.slice(-1, 0, x.size(-1), 2);
}
at::Tensor Odd(const at::Tensor& x) {
  return x.slice(-1, 1, x.size(-1), 2);
}

}  // namespace

std::vector<double> PulseFrequencies(int64_t positions) {
  const int64_t m = (positions + 1) / 2;
  std::vector<double> theta;
  for (int64_t s = 1; s <= m; ++s) {
    theta.push_back(2.0 * std::numbers::pi * static_cast<double>(m + 1 - s) / static_cast<double>(2 * m + 1));
  }
  return theta;
}

ShallowTransformer::ShallowTransformer(const ShallowShape& shape, const ShallowFrequencies& frequencies)
    : shape_(shape) {
  const int64_t n = shape.positions();
  const auto pairs = static_cast<int64_t>(frequencies.cone.size());
  first_weight = at::zeros({2 * pairs, 2 * pairs}, at::kDouble);
  second_weight = at::eye(shape.semantic_dims(), at::kDouble);
  const at::Tensor position = at::arange(n, at::kDouble);
  const at::Tensor lag = position.unsqueeze(1) - position.unsqueeze(0);
  const at::Tensor theta = at::tensor(at::ArrayRef<double>(frequencies.cone), at::kDouble);
  const at::Tensor angle = theta.view({pairs, 1, 1}) * lag;
  first_cosine_ = at::cos(angle);
  first_sine_ = at::sin(angle);
  const at::Tensor slow = (static_cast<double>(n - 1) - position) * frequencies.semantic;
  second_cosine_ = at::cos(slow);
  second_sine_ = at::sin(slow);
  future_ = lag.lt(0);
}

at::Tensor ShallowTransformer::FirstAttention() const {
  // q = c W_Q is W_Q's first row, k = (1, 0, 1, 0, ...): equation (13). Turned to positions i and j, a pair
  // (a, b) of q and the pair (1, 0) of k give a cos theta(i-j) - b sin theta(i-j).
  const at::Tensor query = first_weight.select(0, 0);
  const int64_t n = shape_.positions();
  const auto sum = [&](const at::Tensor& amplitude, const at::Tensor& wave) {
    return at::mv(wave.view({-1, n * n}).t(), amplitude).view({n, n});
  };
  const at::Tensor logits = sum(Even(query), first_cosine_) - sum(Odd(query), first_sine_);
  return at::softmax(logits.masked_fill(future_, -std::numeric_limits<double>::infinity()), 1);
}

ShallowTransformer::Answer ShallowTransformer::Forward(const ShallowBatch& batch,
                                                       const at::Tensor& first_attention) const {
  // Keys are what layer 1 brought to each position, the query is the question's own embedding; logits
  // unscaled, the paper's equation (4). With key pair (a, b) and query pair (p, q) a lag turns the logit to
  // (pa + qb) cos + (pb - qa) sin, whatever the pair, since all turn alike. Layer 1 averages embeddings, so
  // it may average their products with the query instead: S1 (E q) is (S1 E) q with far less work.
  const at::Tensor question = batch.semantic.select(1, shape_.positions() - 1);
  const at::Tensor query = at::mm(question, second_weight);
  const at::Tensor turned = at::stack({-Odd(query), Even(query)}, 2).view(query.sizes());
  const auto of_layer_one = [&](const at::Tensor& direction) {
    return at::mm((batch.semantic * direction.unsqueeze(1)).sum(2), first_attention.t());
  };
  const at::Tensor logits = of_layer_one(query) * second_cosine_ + of_layer_one(turned) * second_sine_;
  Answer answer;
  answer.second_attention = at::softmax(logits, 1);
  // Values are layer 0's embeddings, W_O keeps their last dimension, the label.
  answer.value = (answer.second_attention * batch.semantic.select(2, shape_.semantic_dims() - 1)).sum(1);
  return answer;
}

}  // namespace ropelab::train
