// Registered head scores, read: what specs are resolved and experiments planned with, and what clients are
// shown.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ropelab/v1/head_scores.pb.h"
#include "server/api/service_context.h"
#include "server/experiments/experiment.h"
#include "server/store/store.h"

namespace ropelab::api {

// By name, the last registered first; of those that `wanted` names ("name" or "name@hash") with their heads,
// of all others the name and hash alone. DATA_LOSS: one that was taken cannot be read any more.
absl::StatusOr<std::vector<experiments::ImportedScores>> ReadHeadScores(
    store::Store& store, const std::vector<std::string>& wanted);

// `request` with the whole file as its content.
absl::Status ImportHeadScores(const ServiceContext& context, const v1::ImportHeadScoresRequest& request,
                              v1::ImportHeadScoresResponse& response);
absl::Status ListHeadScores(const ServiceContext& context, const v1::ListHeadScoresRequest& request,
                            v1::ListHeadScoresResponse& response);
absl::Status GetHeadScores(const ServiceContext& context, const v1::GetHeadScoresRequest& request,
                           v1::GetHeadScoresResponse& response);
// head_score_overlap.cc
absl::Status OverlapHeadScores(const ServiceContext& context, const v1::OverlapHeadScoresRequest& request,
                               v1::OverlapHeadScoresResponse& response);

// Of `name` or name@hash, with the row that describes it. Errors: FindHeadScores'.
struct FoundHeadScores {
  experiments::ImportedScores scores;
  v1::HeadScoreSet described;
};
absl::StatusOr<FoundHeadScores> FindRegistered(const ServiceContext& context, const std::string& name);

}  // namespace ropelab::api
