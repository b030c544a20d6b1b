// One position's attention over a prompt's keys and what was generated since, against its formula in double.
#include "worker/engine/row_attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/engine/fixtures.h"
#include "tests/unit/engine/made_model.h"

namespace ropelab::engine {
namespace {

constexpr int64_t kRows = 3, kTokens = 37, kCapacity = 5;

// Rows with random keys; row 1 has heads with keys of their own, row 2 is not live.
struct Rows {
  Rows() {
    at::manual_seed(5);
    for (int64_t row = 0; row < kRows; ++row) {
      AttendedRow attended;
      attended.prompt.keys = at::randn({config.kv_heads, config.head_dim, kTokens});
      attended.prompt.values = at::randn({config.kv_heads, kTokens, config.head_dim});
      if (row == 1) {
        attended.own_heads = {0, 3};
        attended.prompt.own_keys = at::randn({2, config.head_dim, kTokens});
      }
      rows.push_back(attended);
    }
    for (int64_t index = 0; index < kCapacity; ++index) {
      keys.push_back(at::randn({kRows, config.kv_heads, config.head_dim}));
      values.push_back(at::randn({kRows, config.kv_heads, config.head_dim}));
      own_keys.push_back({at::Tensor(), at::randn({1, 2, config.head_dim}), at::Tensor()});
    }
    queries = at::randn({kRows, config.query_heads, config.head_dim}) * 3;
  }

  // One head's output, from the formulas.
  at::Tensor Expected(int64_t row, int64_t head, int64_t index, const AttentionRule& rule) const {
    const int64_t group = head / 2, own = head == 0 ? 0 : 1;
    const bool has_own = row == 1 && (head == 0 || head == 3);
    std::vector<at::Tensor> seen_keys, seen_values;
    for (int64_t p = rule.FirstKey(kTokens + index); p <= kTokens + index; ++p) {
      const int64_t g = p - kTokens;
      const PromptKeys& prompt = rows[row].prompt;
      if (g < 0) {
        seen_keys.push_back(has_own ? prompt.own_keys[own].select(1, p) : prompt.keys[group].select(1, p));
        seen_values.push_back(prompt.values[group][p]);
      } else {
        seen_keys.push_back(has_own ? own_keys[g][row][0][own] : keys[g][row][group]);
        seen_values.push_back(values[g][row][group]);
      }
    }
    const at::Tensor query = queries[row][head].to(at::kDouble);
    at::Tensor logits = at::mv(at::stack(seen_keys).to(at::kDouble), query) * rule.scale;
    if (rule.soft_cap > 0) logits = at::tanh(logits / rule.soft_cap) * rule.soft_cap;
    return at::mv(at::stack(seen_values).to(at::kDouble).t(), at::softmax(logits, 0));
  }

  const formats::ModelConfig config = SmallConfig();
  std::vector<AttendedRow> rows;
  std::vector<at::Tensor> keys, values;
  std::vector<std::vector<at::Tensor>> own_keys;
  at::Tensor queries;
};

TEST(RowAttention, EachHeadSeesItsPromptsKeysAndThoseAfterThem) {
  const Rows made;
  RowAttention attention(made.rows, made.config, kTokens, kCapacity, at::kCPU);
  const std::vector<bool> live = {true, true, false};
  for (int64_t index = 0; index < kCapacity; ++index) {
    attention.Store(index, made.keys[index], made.values[index], made.own_keys[index]);
    for (const AttentionRule& rule : {AttentionRule{0, 0.3, 0}, AttentionRule{20, 0.3, 2.5},
                                      AttentionRule{3, 0.3, 0}, AttentionRule{1, 0.3, 0}}) {
      bool finite = true;
      const at::Tensor outputs = attention.Attend(made.queries, index, rule, live, finite);
      const at::Tensor by_operators = attention.AttendByOperators(made.queries, index, rule, live, finite);
      EXPECT_TRUE(finite);
      for (int64_t row = 0; row < kRows; ++row) {
        for (int64_t head = 0; head < 4; ++head) {
          const at::Tensor expected = live[row] ? made.Expected(row, head, index, rule)
                                                : at::zeros({made.config.head_dim}, at::kDouble);
          EXPECT_LT(Distance(outputs[row][head], expected), 2e-6) << row << head << index << rule.window;
          EXPECT_LT(Distance(by_operators[row][head], expected), 2e-6) << row << head << index << rule.window;
        }
      }
    }
  }
}

TEST(RowAttention, SaysWhenALiveRowsLogitIsNotFinite) {
  Rows made;
  made.queries[2][0][0] = INFINITY;
  RowAttention attention(made.rows, made.config, kTokens, kCapacity, at::kCPU);
  attention.Store(0, made.keys[0], made.values[0], made.own_keys[0]);
  for (const double soft_cap : {0.0, 2.5}) {
    bool finite = true;
    attention.Attend(made.queries, 0, {0, 0.3, soft_cap}, {true, true, false}, finite);
    EXPECT_TRUE(finite);
    attention.Attend(made.queries, 0, {0, 0.3, soft_cap}, {true, true, true}, finite);
    EXPECT_FALSE(finite);
    finite = true;
    attention.AttendByOperators(made.queries, 0, {0, 0.3, soft_cap}, {true, true, true}, finite);
    EXPECT_FALSE(finite);
  }
}

}  // namespace
}  // namespace ropelab::engine
