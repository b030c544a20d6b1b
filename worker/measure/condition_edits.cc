#include "worker/measure/condition_edits.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace ropelab::measure {
namespace {

using engine::HeadEdit;
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

// The heads of an edit, in its order.
absl::StatusOr<std::vector<v1::Head>> ReadHeads(const v1::HeadSet& set, const std::string& path,
                                                const formats::ModelConfig& config) {
  if (set.list().head().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ".heads lists no heads; name them one by one: heads { list { head { layer: 0 head: 0 } } }"));
  }
  for (int i = 0; i < set.list().head_size(); ++i) {
    ROPELAB_RETURN_IF_ERROR(
        CheckHead(set.list().head(i), absl::StrCat(path, ".heads.list.head[", i, "]"), config));
  }
  return std::vector<v1::Head>(set.list().head().begin(), set.list().head().end());
}

absl::Status AddLowRank(const v1::LowRankEdit& edit, const std::string& path,
                        const formats::ModelConfig& config, engine::LowRanks& ranks) {
  if (edit.rank() < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ".rank is ", edit.has_rank() ? absl::StrCat(edit.rank()) : "not given",
                     "; a rank is 1 or more, and head_dim (here ", config.head_dim, ") changes nothing"));
  }
  ROPELAB_ASSIGN_OR_RETURN(const std::set<Projection> projections, ReadMatrices(edit, path));
  ROPELAB_ASSIGN_OR_RETURN(const std::vector<v1::Head> heads, ReadHeads(edit.heads(), path, config));
  for (const v1::Head& head : heads) {
    for (const Projection projection : projections) {
      const int64_t group = config.query_heads / config.kv_heads;
      const int64_t place = projection == Projection::kQuery ? head.head() : head.head() / group;
      const auto [named, is_new] = ranks.try_emplace({head.layer(), projection, place}, edit.rank());
      if (!is_new) named->second = std::min(named->second, edit.rank());
    }
  }
  return absl::OkStatus();
}

// Where in the prompt the messages of edits of heads say that they act.
template <typename Edit>
absl::Status ReadPositions(const Edit& edit, const std::string& path, std::optional<int64_t> question_start,
                           HeadEdit& read) {
  if (edit.has_position_range()) {
    const v1::PositionRange& range = edit.position_range();
    if (edit.has_positions()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " has both positions and position_range; say one of them"));
    }
    if (!range.has_first() || !range.has_last() || range.first() < 0 || range.last() < range.first()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ".position_range is ", range.first(), " to ", range.last(),
                       "; it has a first position, 0 or more, and a last one that is not before it"));
    }
    read.first_position = range.first();
    read.last_position = range.last();
    return absl::OkStatus();
  }
  switch (edit.positions()) {
    case v1::EditPositions::ALL:
      return absl::OkStatus();
    case v1::EditPositions::QUESTION:
      if (!question_start) {
        return absl::InvalidArgumentError(
            absl::StrCat(path,
                         ".positions is QUESTION, which only needle prompts have; say ALL or give a "
                         "position_range"));
      }
      read.first_position = *question_start;
      return absl::OkStatus();
    default:
      return absl::InvalidArgumentError(absl::StrCat(path, ".positions is ", edit.positions(),
                                                     "; say ALL or QUESTION, or give a position_range"));
  }
}

// Storage indices from 0, or pairs from 1 (`first`), as HeadEdit has them: from 0, ascending, each once.
absl::StatusOr<std::vector<int32_t>> ReadDims(const google::protobuf::RepeatedField<int32_t>& named,
                                              int32_t first, int64_t count, const std::string& path) {
  std::vector<int32_t> dims;
  for (const int32_t dim : named) {
    if (dim < first || dim >= first + count) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " holds ", dim, "; a head has ", first, " to ", first + count - 1));
    }
    dims.push_back(dim - first);
  }
  std::ranges::sort(dims);
  if (const auto twice = std::ranges::adjacent_find(dims); twice != dims.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " holds ", *twice + first, " twice; name each once"));
  }
  return dims;
}

absl::StatusOr<engine::EditTarget> ReadTarget(v1::Target::Value target, const std::string& path) {
  switch (target) {
    case v1::Target::QUERY:
      return engine::EditTarget::kQuery;
    case v1::Target::KEY:
      return engine::EditTarget::kKey;
    case v1::Target::BOTH:
      return engine::EditTarget::kBoth;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat(path, ".target is ", target, "; say QUERY, KEY or BOTH"));
  }
}

absl::StatusOr<engine::EditStage> ReadStage(v1::EditStage::Value stage, const std::string& path) {
  switch (stage) {
    case v1::EditStage::PRE_ROPE:
      return engine::EditStage::kPreRope;
    case v1::EditStage::PROJECTION:
      return engine::EditStage::kProjection;
    case v1::EditStage::POST_ROPE:
      return engine::EditStage::kPostRope;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat(path, ".stage is ", stage, "; say PRE_ROPE, PROJECTION or POST_ROPE"));
  }
}

// Reads the interventions of one condition, one after the other.
class Reader {
 public:
  Reader(const formats::ModelConfig& config, std::optional<int64_t> question_start)
      : config_(config), question_start_(question_start) {}

  absl::Status Add(const v1::Intervention& edit, const std::string& place) {
    const std::string path = absl::StrCat(place, ".", EditName(edit));
    switch (edit.edit_case()) {
      case v1::Intervention::kZeroHead:
        return AddToHeads(edit.zero_head(), path, {});
      case v1::Intervention::kZeroDims:
        return AddScaling(edit.zero_dims(), 0, path);
      case v1::Intervention::kUnrotate:
        return AddUnrotation(edit.unrotate(), path);
      case v1::Intervention::kScaleDims:
        return AddFactor(edit.scale_dims(), path);
      case v1::Intervention::kLowRank:
        return AddLowRank(edit.low_rank(), path, config_, read_.ranks);
      case v1::Intervention::EDIT_NOT_SET:
        break;
    }
    return absl::InvalidArgumentError(absl::StrCat(place, " is ", EditName(edit)));
  }
  ReadEdits Result() && {
    read_.ranks = engine::ThoseThatEdit(read_.ranks, config_);
    return std::move(read_);
  }

 private:
  template <typename Edit>
  absl::Status AddToHeads(const Edit& edit, const std::string& path, HeadEdit read) {
    ROPELAB_RETURN_IF_ERROR(ReadPositions(edit, path, question_start_, read));
    ROPELAB_ASSIGN_OR_RETURN(const std::vector<v1::Head> heads, ReadHeads(edit.heads(), path, config_));
    for (const v1::Head& head : heads) {
      read.layer = head.layer();
      read.head = head.head();
      read_.heads.push_back(read);
    }
    return absl::OkStatus();
  }

  template <typename Edit>
  absl::Status AddScaling(const Edit& edit, float factor, const std::string& path) {
    HeadEdit read;
    read.kind = engine::EditKind::kScaleDims;
    read.factor = factor;
    ROPELAB_ASSIGN_OR_RETURN(read.dims, ReadDims(edit.dims(), 0, config_.head_dim, path + ".dims"));
    ROPELAB_ASSIGN_OR_RETURN(read.target, ReadTarget(edit.target(), path));
    ROPELAB_ASSIGN_OR_RETURN(read.stage, ReadStage(edit.stage(), path));
    return AddToHeads(edit, path, read);
  }

  absl::Status AddFactor(const v1::ScaleDims& edit, const std::string& path) {
    const float factor = static_cast<float>(edit.factor());
    if (!edit.has_factor() || !std::isfinite(factor)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ".factor is ", edit.has_factor() ? absl::StrCat(edit.factor()) : "not given",
                       "; say a number within fp32"));
    }
    return AddScaling(edit, factor, path);
  }

  absl::Status AddUnrotation(const v1::Unrotate& edit, const std::string& path) {
    HeadEdit read;
    read.kind = engine::EditKind::kUnrotate;
    ROPELAB_ASSIGN_OR_RETURN(read.dims, ReadDims(edit.pairs(), 1, config_.head_dim / 2, path + ".pairs"));
    return AddToHeads(edit, path, read);
  }

  const formats::ModelConfig& config_;
  const std::optional<int64_t> question_start_;
  ReadEdits read_;
};

}  // namespace

absl::StatusOr<ReadEdits> ReadInterventions(const Interventions& interventions, const std::string& path,
                                            const formats::ModelConfig& config,
                                            std::optional<int64_t> question_start) {
  Reader reader(config, question_start);
  for (int i = 0; i < interventions.size(); ++i) {
    ROPELAB_RETURN_IF_ERROR(reader.Add(interventions[i], absl::StrCat(path, "[", i, "]")));
  }
  return std::move(reader).Result();
}

absl::Status CheckReached(const ReadEdits& edits, int64_t tokens) {
  for (const HeadEdit& edit : edits.heads) {
    if (edit.first_position < tokens) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("an edit begins at position ", edit.first_position, ", and the prompt has ", tokens,
                     " tokens, so nothing of it would be edited; say a position_range that begins earlier"));
  }
  return absl::OkStatus();
}

int64_t FirstEditedLayer(const ReadEdits& edits, const formats::ModelConfig& config) {
  const int64_t first = engine::FirstEditedLayer(edits.heads, config);
  return edits.ranks.empty() ? first : std::min(first, edits.ranks.begin()->first.layer);
}

engine::EditedLayers MakeEditedLayers(const model::LoadedModel& model, const engine::LowRanks& ranks) {
  engine::EditedLayers edited;
  for (const auto& [matrix, rank] : ranks) {
    if (!edited.contains(matrix.layer))
      edited[matrix.layer] = engine::LowRankLayer(model, matrix.layer, ranks);
  }
  return edited;
}

}  // namespace ropelab::measure
