#include "server/api/earlier_results.h"

#include "common/status_macros.h"
#include "server/experiments/head_set.h"
#include "server/store/experiments.h"
#include "server/store/results.h"

namespace ropelab::api {
namespace {

// The rows of `slice` behind those of `whole`, whose columns are the same.
void Append(const v1::TableSlice& slice, v1::TableSlice& whole) {
  if (whole.columns_size() == 0) {
    whole = slice;
    return;
  }
  for (int i = 0; i < slice.columns_size(); ++i) {
    const v1::Column& from = slice.columns(i);
    v1::Column& to = *whole.mutable_columns(i);
    to.mutable_integers()->MergeFrom(from.integers());
    to.mutable_reals()->MergeFrom(from.reals());
    to.mutable_texts()->MergeFrom(from.texts());
    if (from.null_size() + to.null_size() > 0) {  // an empty list says that no row is null
      to.mutable_null()->Resize(static_cast<int>(whole.rows()), false);
      to.mutable_null()->MergeFrom(from.null());
      to.mutable_null()->Resize(static_cast<int>(whole.rows() + slice.rows()), false);
    }
  }
  whole.set_rows(whole.rows() + slice.rows());
}

}  // namespace

absl::StatusOr<std::vector<experiments::EarlierExperiment>> ReadEarlier(store::Store& store,
                                                                        const std::vector<Source>& sources) {
  std::vector<experiments::EarlierExperiment> all;
  for (const Source& source : sources) {
    experiments::EarlierExperiment& earlier = all.emplace_back();
    earlier.name = source.name;
    ROPELAB_RETURN_IF_ERROR(store.Read([&](store::Connection& db) -> absl::Status {
      ROPELAB_ASSIGN_OR_RETURN(const auto row, store::GetExperiment(db, source.experiment));
      earlier.result_digest = row.result_digest;
      ROPELAB_ASSIGN_OR_RETURN(const auto tables, store::ListTables(db, source.experiment));
      for (const v1::TableInfo& table : tables) {
        for (const char* wanted : experiments::kHeadSetTables) {
          if (table.name() != wanted) {
            continue;
          }
          v1::TableSlice whole;
          ROPELAB_RETURN_IF_ERROR(store::ReadTable(db, store.artifacts(), source.experiment, table.name(),
                                                   [&](const v1::TableSlice& slice) {
                                                     Append(slice, whole);
                                                     return absl::OkStatus();
                                                   }));
          earlier.tables.push_back(std::move(whole));
        }
      }
      return absl::OkStatus();
    }));
  }
  return all;
}

}  // namespace ropelab::api
