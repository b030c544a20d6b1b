#include "server/api/experiment_service_models.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/status_macros.h"

namespace ropelab::api {

v1::KnownModel DescribeModel(const store::ModelRow& row, const std::vector<v1::ConnectedWorker>& connected) {
  v1::KnownModel shown;
  *shown.mutable_announcement() = row.announcement;
  shown.set_last_seen_microseconds(row.last_seen_us);
  const std::string& name = row.announcement.name();
  const std::string& hash = row.announcement.weights_hash();
  for (const v1::ConnectedWorker& worker : connected) {
    const bool announced =
        std::find(worker.models().begin(), worker.models().end(), name) != worker.models().end();
    const bool loaded = !hash.empty() && worker.loaded_model() == hash;
    if (announced || loaded || worker.id() == row.last_worker) {
      shown.add_workers(worker.id());
    }
    if (loaded) {
      shown.set_resident_on(worker.id());
    }
  }
  return shown;
}

absl::Status ListModels(const ServiceContext& context, const v1::ListModelsRequest&,
                        v1::ListModelsResponse& response) {
  std::vector<store::ModelRow> rows;
  ROPELAB_RETURN_IF_ERROR(context.store->Read([&](store::Connection& db) -> absl::Status {
    ROPELAB_ASSIGN_OR_RETURN(rows, store::KnownModels(db));
    return absl::OkStatus();
  }));
  const std::vector<v1::ConnectedWorker> connected = context.coordinator->Workers();
  for (const store::ModelRow& row : store::WithoutReplaced(std::move(rows))) {
    *response.add_models() = DescribeModel(row, connected);
  }
  return absl::OkStatus();
}

absl::Status ListWorkers(const ServiceContext& context, const v1::ListWorkersRequest&,
                         v1::ListWorkersResponse& response) {
  for (v1::ConnectedWorker& worker : context.coordinator->Workers()) {
    *response.add_workers() = std::move(worker);
  }
  return absl::OkStatus();
}

}  // namespace ropelab::api
