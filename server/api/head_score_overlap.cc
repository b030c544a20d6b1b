// How far published scores and a retrieval detection rank the same heads first.
#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "server/api/earlier_results.h"
#include "server/api/experiment_service_describe.h"
#include "server/api/head_score_sets.h"
#include "server/experiments/detection.h"
#include "server/experiments/head_set_imported.h"
#include "server/statistics/sets.h"

namespace ropelab::api {
namespace {

using experiments::HeadFigures;
using statistics::Place;

// The detection's table head_scores, and what it ran on.
struct Detection {
  v1::ExperimentSpec spec;
  v1::TableSlice scores;
};

absl::StatusOr<Detection> ReadDetection(const ServiceContext& context, const std::string& id) {
  store::ExperimentRow row;
  ROPELAB_RETURN_IF_ERROR(context.store->Read([&](store::Connection& db) -> absl::Status {
    ROPELAB_ASSIGN_OR_RETURN(row, FindExperiment(db, id));
    return absl::OkStatus();
  }));
  const std::string called = ExperimentId(row.id);
  if (row.kind != "retrieval_detection") {
    return absl::InvalidArgumentError(absl::StrCat(
        called, " is a ", row.kind, ", which ranks no retrieval heads; name a retrieval_detection"));
  }
  if (row.state != "done") {
    return absl::FailedPreconditionError(
        absl::StrCat(called, " is ", row.state, "; its scores can be compared once it is done"));
  }
  Detection detection;
  if (!detection.spec.ParseFromString(row.spec)) {
    return absl::DataLossError(absl::StrCat("the spec of ", called, " cannot be read: restore a backup"));
  }
  ROPELAB_ASSIGN_OR_RETURN(const auto earlier, ReadEarlier(*context.store, {{row.name, row.id}}));
  for (const v1::TableSlice& table : earlier.front().tables) {
    if (table.table() == "head_scores") {
      detection.scores = table;
      return detection;
    }
  }
  return absl::FailedPreconditionError(absl::StrCat(called, " has no table head_scores"));
}

std::vector<Place> BestOf(const experiments::ImportedScores& scores, size_t count) {
  std::vector<Place> places;
  for (const size_t i : experiments::RankedHeads(scores)) {
    if (places.size() < count) {
      places.push_back({scores.heads[i].layer, scores.heads[i].head});
    }
  }
  return places;
}

std::vector<Place> BestOf(const std::vector<HeadFigures>& heads, size_t count) {
  std::vector<Place> places;
  for (const size_t i : experiments::RankedHeads(heads)) {
    if (places.size() < count) {
      places.push_back({heads[i].layer, heads[i].head});
    }
  }
  return places;
}

// A head that the model does not have: the scores are of another model.
absl::Status CheckWithin(const experiments::ImportedScores& scores, const std::vector<HeadFigures>& heads,
                         const std::string& model) {
  std::set<Place> there;
  for (const HeadFigures& head : heads) {
    there.insert({head.layer, head.head});
  }
  for (const experiments::ImportedScores::Head& head : scores.heads) {
    if (there.count({head.layer, head.head}) == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("head scores ", scores.name, " have L", head.layer, "H", head.head, ", which model ",
                       model, " has not: its last head is L", heads.back().layer, "H", heads.back().head));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status OverlapHeadScores(const ServiceContext& context, const v1::OverlapHeadScoresRequest& request,
                               v1::OverlapHeadScoresResponse& response) {
  ROPELAB_ASSIGN_OR_RETURN(const FoundHeadScores found, FindRegistered(context, request.name()));
  if (request.has_top() && (request.top() < 1 || request.top() > found.described.heads())) {
    return absl::InvalidArgumentError(absl::StrCat("top ", request.top(), ": 1 to ", found.described.heads(),
                                                   ", the heads of ", found.described.name()));
  }
  const v1::Metric::Value metric = request.has_metric() ? request.metric() : v1::Metric::ARGMAX;
  ROPELAB_ASSIGN_OR_RETURN(const Detection detection, ReadDetection(context, request.experiment()));
  *response.mutable_set() = found.described;
  for (const std::string& model : detection.spec.models()) {
    for (const uint64_t seed : detection.spec.seeds()) {
      ROPELAB_ASSIGN_OR_RETURN(
          const std::vector<HeadFigures> heads,
          experiments::ReadHeadFigures(detection.scores, model, static_cast<int64_t>(seed), metric));
      if (heads.empty()) {
        return absl::FailedPreconditionError(absl::StrCat(request.experiment(), " does not measure ",
                                                          experiments::MetricName(metric),
                                                          "; name a metric that it has"));
      }
      ROPELAB_RETURN_IF_ERROR(CheckWithin(found.scores, heads, model));
      const int64_t detected =
          std::count_if(heads.begin(), heads.end(), [](const HeadFigures& head) { return head.retrieval; });
      const int64_t top = std::min(request.has_top() ? request.top() : detected, found.described.heads());
      const std::vector<Place> theirs = BestOf(found.scores, static_cast<size_t>(top));
      const std::vector<Place> ours = BestOf(heads, static_cast<size_t>(top));
      const statistics::Overlap overlap = statistics::OverlapOf(theirs, ours);
      v1::HeadScoreOverlap& shown = *response.add_overlaps();
      shown.set_model(model);
      shown.set_seed(static_cast<int64_t>(seed));
      shown.set_metric(experiments::MetricName(metric));
      shown.set_top(top);
      shown.set_shared(overlap.shared);
      if (const auto jaccard = statistics::Jaccard(overlap); jaccard.has_value()) {
        shown.set_jaccard(*jaccard);
      }
      const std::set<Place> mine(ours.begin(), ours.end());
      for (const Place& place : theirs) {
        if (mine.count(place) > 0) {
          shown.add_heads(absl::StrCat(place.first, "-", place.second));
        }
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace ropelab::api
