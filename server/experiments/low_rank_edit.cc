#include "server/experiments/low_rank_edit.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ropelab::experiments {

void ResolveMatrices(Matrices& matrices, const std::string& path, Problems& problems) {
  std::set<int> named;
  for (int i = 0; i < matrices.size(); ++i) {
    if (!named.insert(matrices[i]).second) {
      problems.Add(absl::StrCat(path, "[", i, "]"),
                   v1::Matrix::Value_Name(static_cast<v1::Matrix::Value>(matrices[i])),
                   "is named twice; name each matrix once");
    }
  }
  if (named.empty()) {
    named = {v1::Matrix::QUERY, v1::Matrix::KEY};
  }
  matrices.Assign(named.begin(), named.end());
}

void CheckRank(int64_t rank, const std::string& path, const Facts& facts, Problems& problems) {
  if (rank < 1) {
    problems.Add(path, absl::StrCat(rank), "a rank is 1 or more");
    return;
  }
  for (const ModelFacts& model : facts.models) {
    if (rank > model.config.head_dim()) {
      problems.Add(path, absl::StrCat(rank),
                   absl::StrCat("heads of model ", model.name, " have ", model.config.head_dim(),
                                " dimensions; a rank is 1 to ", model.config.head_dim()));
      return;
    }
  }
}

bool Edits(const Matrices& matrices, v1::Matrix::Value matrix) {
  return std::find(matrices.begin(), matrices.end(), static_cast<int>(matrix)) != matrices.end();
}

v1::Intervention LowRankEditOf(const std::vector<NamedHead>& heads, int64_t rank, const Matrices& matrices) {
  v1::Intervention intervention;
  v1::LowRankEdit& edit = *intervention.mutable_low_rank();
  ListHeads(heads, *edit.mutable_heads());
  edit.set_rank(rank);
  *edit.mutable_matrices() = matrices;
  return intervention;
}

int64_t KvHeadOf(const v1::ModelConfig& config, int64_t head) {
  return head * config.kv_heads() / config.query_heads();
}

int64_t SavedParameters(const v1::ModelConfig& config, const std::vector<NamedHead>& heads, int64_t rank,
                        const Matrices& matrices) {
  std::set<std::pair<int64_t, int64_t>> queries, keys;
  for (const NamedHead& head : heads) {
    queries.insert({head.layer, head.head});
    keys.insert({head.layer, KvHeadOf(config, head.head)});
  }
  int64_t edited = 0;
  edited += Edits(matrices, v1::Matrix::QUERY) ? static_cast<int64_t>(queries.size()) : 0;
  edited += Edits(matrices, v1::Matrix::KEY) ? static_cast<int64_t>(keys.size()) : 0;
  const int64_t d = config.hidden_size(), head_dim = config.head_dim();
  return edited * (d * head_dim - rank * (d + head_dim));
}

}  // namespace ropelab::experiments
