#include "worker/engine/edits.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ropelab::engine {
namespace {

absl::Status CheckEdit(const HeadEdit& edit, const formats::ModelConfig& config) {
  if (edit.layer < 0 || edit.layer >= config.layers || edit.head < 0 || edit.head >= config.query_heads) {
    return absl::InvalidArgumentError(absl::StrCat("L", edit.layer, "H", edit.head,
                                                   ": the model has layers 0 to ", config.layers - 1,
                                                   " of heads 0 to ", config.query_heads - 1));
  }
  const int64_t most = edit.kind == EditKind::kUnrotate ? config.head_dim / 2 : config.head_dim;
  for (size_t i = 0; i < edit.dims.size(); ++i) {
    if (edit.dims[i] < 0 || edit.dims[i] >= most) {
      return absl::InvalidArgumentError(absl::StrCat(edit.kind == EditKind::kUnrotate ? "pair " : "dim ",
                                                     edit.dims[i], ": there are 0 to ", most - 1));
    }
    if (i > 0 && edit.dims[i] <= edit.dims[i - 1]) {
      return absl::InvalidArgumentError(
          absl::StrCat("dims: ", edit.dims[i], " follows ", edit.dims[i - 1], "; name each once, ascending"));
    }
  }
  if (!std::isfinite(edit.factor)) {
    return absl::InvalidArgumentError(absl::StrCat("the factor ", edit.factor, " is not finite"));
  }
  if (edit.first_position < 0 || edit.last_position < edit.first_position) {
    return absl::InvalidArgumentError(absl::StrCat("positions ", edit.first_position, " to ",
                                                   edit.last_position,
                                                   ": the first is 0 or more and the last not before it"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckEdits(const HeadEdits& edits, const formats::ModelConfig& config) {
  for (size_t i = 0; i < edits.size(); ++i) {
    if (const absl::Status status = CheckEdit(edits[i], config); !status.ok()) {
      return absl::Status(status.code(), absl::StrCat("edit ", i, ": ", std::string(status.message())));
    }
  }
  return absl::OkStatus();
}

int64_t FirstEditedLayer(const HeadEdits& edits, const formats::ModelConfig& config) {
  int64_t first = config.layers;
  for (const HeadEdit& edit : edits) first = std::min(first, edit.layer);
  return first;
}

int64_t OwnKeyBytes(const HeadEdits& edits, const formats::ModelConfig& config, int64_t positions) {
  std::set<std::pair<int64_t, int64_t>> own;
  for (const HeadEdit& edit : edits) {
    if (edit.kind == EditKind::kUnrotate && !edit.dims.empty()) own.insert({edit.layer, edit.head});
  }
  return static_cast<int64_t>(own.size() * sizeof(float)) * config.head_dim * positions;
}

}  // namespace ropelab::engine
