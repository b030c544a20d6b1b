#include "server/api/experiment_service_models.h"

#include <string>
#include <utility>

#include "common/status_macros.h"

namespace ropelab::api {

v1::KnownModel DescribeModel(const store::ModelRow& row, const std::vector<Holding>& holdings) {
  v1::KnownModel shown;
  *shown.mutable_announcement() = row.announcement;
  shown.set_last_seen_microseconds(row.last_seen_us);
  const v1::ModelAnnouncement& model = row.announcement;
  for (const Holding& held : holdings) {
    const bool same_weights = held.weights_hash.empty() || held.weights_hash == model.weights_hash();
    if (held.name != model.name() || held.config_hash != model.config_hash() ||
        held.tokenizer_hash != model.tokenizer_hash() || !same_weights) {
      continue;
    }
    shown.add_workers(held.worker);
    if (held.loaded) {
      shown.set_resident_on(held.worker);
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
  const std::vector<Holding> holdings = context.coordinator->Holdings();
  for (const store::ModelRow& row : store::WithoutReplaced(std::move(rows))) {
    *response.add_models() = DescribeModel(row, holdings);
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
