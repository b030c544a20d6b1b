#include "server/api/experiment_service_query.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "server/api/experiment_service_describe.h"
#include "server/experiments/kinds.h"
#include "server/store/experiments.h"

namespace ropelab::api {
namespace {

constexpr int64_t kListLimit = 1000;
constexpr size_t kListBytes = 3 << 20;  // below the largest message
constexpr std::array<const char*, 7> kStates = {"waiting", "queued", "running",  "reducing",
                                                "done",    "failed", "cancelled"};

absl::Status CheckFilter(const v1::ListRequest& request) {
  const std::string& state = request.state();
  if (!state.empty() &&
      std::none_of(kStates.begin(), kStates.end(), [&](const char* s) { return state == s; })) {
    return absl::InvalidArgumentError(
        absl::StrCat("state: value \"", state, "\": one of ", absl::StrJoin(kStates, ", ")));
  }
  if (!request.kind().empty() && experiments::FindKind(request.kind()) == nullptr) {
    const std::string kinds =
        absl::StrJoin(experiments::Kinds(), ", ",
                      [](std::string* out, const experiments::Kind& kind) { out->append(kind.field); });
    return absl::InvalidArgumentError(absl::StrCat("kind: value \"", request.kind(), "\": one of ", kinds));
  }
  if (request.limit() < 0) {
    return absl::InvalidArgumentError(absl::StrCat("limit: value \"", request.limit(),
                                                   "\": a number of experiments, or 0 for ", kListLimit));
  }
  return absl::OkStatus();
}

// Calls back exactly once, on the pool, also when it is dropped uncalled (a coordinator that stops).
class OnceOnPool {
 public:
  OnceOnPool(WorkPool* pool, absl::AnyInvocable<void(absl::Status)> call)
      : pool_(pool), call_(std::move(call)) {}
  ~OnceOnPool() { Call(absl::UnavailableError("the server is stopping; try again")); }

  void Call(absl::Status status) {
    if (call_ != nullptr) {
      pool_->Continue(
          [call = std::exchange(call_, nullptr), status = std::move(status)]() mutable { call(status); });
    }
  }

 private:
  WorkPool* const pool_;
  absl::AnyInvocable<void(absl::Status)> call_;
};

}  // namespace

absl::Status Get(const ServiceContext& context, const v1::GetRequest& request, v1::Experiment& response) {
  int64_t number = 0;
  ROPELAB_RETURN_IF_ERROR(context.store->Read([&](store::Connection& db) -> absl::Status {
    ROPELAB_ASSIGN_OR_RETURN(number, ExperimentNumber(db, request.id()));
    return absl::OkStatus();
  }));
  ROPELAB_ASSIGN_OR_RETURN(std::vector<v1::Experiment> shown, DescribeExperiments(context, {number}));
  response = std::move(shown.front());
  return absl::OkStatus();
}

absl::Status List(const ServiceContext& context, const v1::ListRequest& request, v1::ListResponse& response) {
  ROPELAB_RETURN_IF_ERROR(CheckFilter(request));
  store::ExperimentFilter filter;
  filter.owner = request.user();
  filter.state = request.state();
  filter.kind = request.kind();
  filter.model = request.model();
  filter.tag = request.tag();
  filter.limit = request.limit() == 0 ? kListLimit : std::min(request.limit(), kListLimit);
  std::vector<int64_t> ids;
  ROPELAB_RETURN_IF_ERROR(context.store->Read([&](store::Connection& db) -> absl::Status {
    ROPELAB_ASSIGN_OR_RETURN(const std::vector<store::ExperimentRow> rows,
                             store::ListExperiments(db, filter));
    for (const store::ExperimentRow& row : rows) {
      ids.push_back(row.id);
    }
    return absl::OkStatus();
  }));
  ROPELAB_ASSIGN_OR_RETURN(std::vector<v1::Experiment> shown, DescribeExperiments(context, ids));
  size_t bytes = 0;
  for (v1::Experiment& experiment : shown) {
    bytes += experiment.ByteSizeLong();
    if (bytes > kListBytes) {
      break;
    }
    *response.add_experiments() = std::move(experiment);
  }
  return absl::OkStatus();
}

void Cancel(const ServiceContext& context, const v1::CancelRequest& request, v1::Experiment& response,
            absl::AnyInvocable<void(absl::Status)> done) {
  int64_t number = 0;
  const absl::Status found = context.store->Read([&](store::Connection& db) -> absl::Status {
    ROPELAB_ASSIGN_OR_RETURN(number, ExperimentNumber(db, request.id()));
    return absl::OkStatus();
  });
  if (!found.ok()) {
    done(found);
    return;
  }
  auto answer = [context, number, &response, done = std::move(done)](absl::Status status) mutable {
    if (status.ok()) {
      absl::StatusOr<std::vector<v1::Experiment>> shown = DescribeExperiments(context, {number});
      if (shown.ok()) {
        response = std::move(shown->front());
      }
      status = shown.status();
    }
    done(status);
  };
  auto once = std::make_shared<OnceOnPool>(context.requests, std::move(answer));
  context.coordinator->Cancel(number, request.user(),
                              [once](absl::Status status) { once->Call(std::move(status)); });
}

}  // namespace ropelab::api
