#include "worker/train/blocked_attention.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

namespace ropelab::train {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kRows = 128;
constexpr double kMasked = -1e9;

// A block's queries of all heads that share a key head stand below each other: one product for them.
at::Tensor Stacked(const at::Tensor& rows, int64_t begin, int64_t end) {
  return rows.slice(2, begin, end).reshape({rows.size(0), rows.size(1) * (end - begin), rows.size(3)});
}

struct Function : torch::autograd::Function<Function> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& query, const at::Tensor& key,
                            const at::Tensor& value) {
    const int64_t outer = query.size(0), heads = query.size(1), tokens = query.size(2), width = query.size(3);
    at::Tensor output = at::empty_like(query);
    variable_list saved = {query, key, value};
    for (int64_t begin = 0; begin < tokens; begin += kRows) {
      const int64_t end = std::min(tokens, begin + kRows), rows = end - begin;
      at::Tensor logits = at::bmm(Stacked(query, begin, end), key.slice(1, 0, end).transpose(1, 2))
                              .view({outer, heads, rows, end});
      logits.slice(3, begin, end)
          .add_(at::full({rows, rows}, kMasked, query.options().requires_grad(false)).triu(1));
      const at::Tensor shares = at::softmax(logits, -1);
      output.slice(2, begin, end)
          .copy_(at::bmm(shares.view({outer, heads * rows, end}), value.slice(1, 0, end))
                     .view({outer, heads, rows, width}));
      saved.push_back(shares);
    }
    context->save_for_backward(std::move(saved));
    return output;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& query = saved[0];
    const at::Tensor& key = saved[1];
    const at::Tensor& value = saved[2];
    const int64_t outer = query.size(0), heads = query.size(1), tokens = query.size(2), width = query.size(3);
    at::Tensor query_gradient = at::empty_like(query);
    // Sums over blocks are taken in fp32 whatever the products' dtype.
    at::Tensor key_gradient = at::zeros(key.sizes(), key.options().dtype(at::kFloat));
    at::Tensor value_gradient = at::zeros_like(key_gradient);
    size_t block = 3;
    for (int64_t begin = 0; begin < tokens; begin += kRows, ++block) {
      const int64_t end = std::min(tokens, begin + kRows), rows = end - begin;
      const at::Tensor shares = saved[block].view({outer, heads * rows, end});
      const at::Tensor out = Stacked(gradients[0], begin, end);
      value_gradient.slice(1, 0, end).add_(at::bmm(shares.transpose(1, 2), out));
      const at::Tensor of_shares = at::bmm(out, value.slice(1, 0, end).transpose(1, 2));
      const at::Tensor of_logits = at::_softmax_backward_data(of_shares, shares, -1, of_shares.scalar_type());
      query_gradient.slice(2, begin, end)
          .copy_(at::bmm(of_logits, key.slice(1, 0, end)).view({outer, heads, rows, width}));
      key_gradient.slice(1, 0, end).add_(at::bmm(of_logits.transpose(1, 2), Stacked(query, begin, end)));
    }
    return {query_gradient, key_gradient.to(key.scalar_type()), value_gradient.to(value.scalar_type())};
  }
};

}  // namespace

at::Tensor BlockedAttention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
  return Function::apply(query, key, value);
}

}  // namespace ropelab::train
