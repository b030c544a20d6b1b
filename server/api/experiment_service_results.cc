#include "server/api/experiment_service_results.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "server/api/experiment_service_describe.h"
#include "server/store/artifact_files.h"
#include "server/store/results.h"

namespace ropelab::api {
namespace {

constexpr int64_t kPieceBytes = 1 << 20;

// What to say when a table or an artifact is not there: wait, or which there are.
absl::Status Missing(const store::ExperimentRow& row, const std::string& what, const std::string& name,
                     const std::vector<std::string>& there) {
  const std::string id = ExperimentId(row.id);
  if (!IsFinalState(row.state) && there.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        id, " is ", row.state, " and has no results yet; `ropelab watch ", id, "` waits for them"));
  }
  const std::string list =
      there.empty() ? "it has none" : absl::StrCat("it has ", absl::StrJoin(there, ", "));
  return absl::NotFoundError(absl::StrCat(id, " has no ", what, " \"", name, "\"; ", list));
}

}  // namespace

absl::Status ListResults(const ServiceContext& context, const v1::ListResultsRequest& request,
                         v1::ListResultsResponse& response) {
  return context.store->Read([&](store::Connection& db) -> absl::Status {
    ROPELAB_ASSIGN_OR_RETURN(const int64_t number, ExperimentNumber(db, request.id()));
    ROPELAB_ASSIGN_OR_RETURN(std::vector<v1::TableInfo> tables, store::ListTables(db, number));
    ROPELAB_ASSIGN_OR_RETURN(const std::vector<store::ResultArtifact> artifacts,
                             store::ListArtifacts(db, number));
    for (v1::TableInfo& table : tables) {
      *response.add_tables() = std::move(table);
    }
    for (const store::ResultArtifact& artifact : artifacts) {
      v1::ArtifactInfo& shown = *response.add_artifacts();
      shown.set_name(artifact.name);
      shown.set_sha256(artifact.sha256);
      shown.set_bytes(artifact.bytes);
    }
    return absl::OkStatus();
  });
}

absl::Status ReadResults(const ServiceContext& context, const v1::ResultsRequest& request,
                         const std::function<absl::Status(v1::TableSlice)>& send) {
  return context.store->Read([&](store::Connection& db) -> absl::Status {
    ROPELAB_ASSIGN_OR_RETURN(const store::ExperimentRow row, FindExperiment(db, request.id()));
    ROPELAB_ASSIGN_OR_RETURN(const std::vector<v1::TableInfo> tables, store::ListTables(db, row.id));
    std::vector<std::string> names;
    bool there = false;
    for (const v1::TableInfo& table : tables) {
      names.push_back(table.name());
      there = there || table.name() == request.table();
    }
    if (!there) {
      return Missing(row, "table", request.table(), names);
    }
    return store::ReadTable(db, context.store->artifacts(), row.id, request.table(),
                            [&](const v1::TableSlice& slice) { return send(slice); });
  });
}

absl::Status ReadArtifact(const ServiceContext& context, const v1::ArtifactRequest& request,
                          const std::function<absl::Status(v1::ArtifactData)>& send) {
  store::ResultArtifact found;
  ROPELAB_RETURN_IF_ERROR(context.store->Read([&](store::Connection& db) -> absl::Status {
    ROPELAB_ASSIGN_OR_RETURN(const store::ExperimentRow row, FindExperiment(db, request.id()));
    ROPELAB_ASSIGN_OR_RETURN(const std::vector<store::ResultArtifact> artifacts,
                             store::ListArtifacts(db, row.id));
    std::vector<std::string> names;
    for (const store::ResultArtifact& artifact : artifacts) {
      names.push_back(artifact.name);
      if (artifact.name == request.name()) {
        found = artifact;
        return absl::OkStatus();
      }
    }
    return Missing(row, "artifact", request.name(), names);
  }));
  bool first = true;
  auto piece = [&](std::string_view bytes) -> absl::Status {
    v1::ArtifactData data;
    data.set_data(bytes.data(), bytes.size());
    if (first) {
      data.set_total_bytes(found.bytes);
      data.set_sha256(found.sha256);
      first = false;
    }
    return send(std::move(data));
  };
  ROPELAB_RETURN_IF_ERROR(context.store->artifacts().ForEachChunk(found.sha256, kPieceBytes, piece));
  return first ? piece("") : absl::OkStatus();
}

}  // namespace ropelab::api
