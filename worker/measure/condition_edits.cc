#include "worker/measure/condition_edits.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace ropelab::measure {
namespace {

using engine::Projection;

const char* EditName(const v1::Intervention& edit) {
  switch (edit.edit_case()) {
    case v1::Intervention::kZeroHead:
      return "zero_head";
    case v1::Intervention::kZeroDims:
      return "zero_dims";
    case v1::Intervention::kUnrotate:
      return "unrotate";
    case v1::Intervention::kScaleDims:
      return "scale_dims";
    case v1::Intervention::kLowRank:
      return "low_rank";
    case v1::Intervention::EDIT_NOT_SET:
      break;
  }
  return "an edit of a kind that is not known here";
}

absl::StatusOr<std::set<Projection>> ReadMatrices(const v1::LowRankEdit& edit, const std::string& path) {
  std::set<Projection> projections;
  for (const int matrix : edit.matrices()) {
    if (matrix != v1::Matrix::QUERY && matrix != v1::Matrix::KEY) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ".matrices holds ", matrix, "; a matrix is QUERY or KEY"));
    }
    const auto projection = matrix == v1::Matrix::QUERY ? Projection::kQuery : Projection::kKey;
    if (!projections.insert(projection).second) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ".matrices holds ", v1::Matrix::Value_Name(static_cast<v1::Matrix::Value>(matrix)),
          " twice; name each matrix once"));
    }
  }
  if (projections.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ".matrices is empty; name QUERY, KEY or both"));
  }
  return projections;
}

absl::Status CheckHead(const v1::Head& head, const std::string& path, const formats::ModelConfig& config) {
  if (!head.has_layer() || !head.has_head()) {
    return absl::InvalidArgumentError(absl::StrCat(path, " names no ", head.has_layer() ? "head" : "layer",
                                                   "; a head is a layer and a head, both from 0"));
  }
  if (head.layer() < 0 || head.layer() >= config.layers || head.head() < 0 ||
      head.head() >= config.query_heads) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is L", head.layer(), "H", head.head(),
                                                   ", which is not in the model: it has ", config.layers,
                                                   " layers of ", config.query_heads, " heads, both from 0"));
  }
  return absl::OkStatus();
}

absl::Status AddEdit(const v1::LowRankEdit& edit, const std::string& path, const formats::ModelConfig& config,
                     engine::LowRanks& ranks) {
  if (edit.rank() < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ".rank is ", edit.has_rank() ? absl::StrCat(edit.rank()) : "not given",
                     "; a rank is 1 or more, and head_dim (here ", config.head_dim, ") changes nothing"));
  }
  ROPELAB_ASSIGN_OR_RETURN(const std::set<Projection> projections, ReadMatrices(edit, path));
  if (edit.heads().list().head().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ".heads lists no heads; name them one by one: heads { list { head { layer: 0 head: 0 } } }"));
  }
  for (int i = 0; i < edit.heads().list().head_size(); ++i) {
    const v1::Head& head = edit.heads().list().head(i);
    ROPELAB_RETURN_IF_ERROR(CheckHead(head, absl::StrCat(path, ".heads.list.head[", i, "]"), config));
    for (const Projection projection : projections) {
      const int64_t group = config.query_heads / config.kv_heads;
      const int64_t place = projection == Projection::kQuery ? head.head() : head.head() / group;
      const auto [named, is_new] = ranks.try_emplace({head.layer(), projection, place}, edit.rank());
      if (!is_new) named->second = std::min(named->second, edit.rank());
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<engine::LowRanks> ReadLowRanks(const Interventions& interventions, const std::string& path,
                                              const formats::ModelConfig& config) {
  engine::LowRanks ranks;
  for (int i = 0; i < interventions.size(); ++i) {
    const v1::Intervention& edit = interventions[i];
    const std::string place = absl::StrCat(path, "[", i, "]");
    if (!edit.has_low_rank()) {
      return absl::InvalidArgumentError(
          absl::StrCat(place, " is ", EditName(edit),
                       ", which is not built in this version; leave it out (low_rank is built)"));
    }
    ROPELAB_RETURN_IF_ERROR(AddEdit(edit.low_rank(), absl::StrCat(place, ".low_rank"), config, ranks));
  }
  return engine::ThoseThatEdit(ranks, config);
}

}  // namespace ropelab::measure
