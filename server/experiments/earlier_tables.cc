#include "server/experiments/earlier_tables.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace ropelab::experiments {

absl::StatusOr<const v1::TableSlice*> EarlierTable(const Context& context, const std::string& experiment,
                                                   const std::string& table) {
  for (const EarlierExperiment& earlier : context.earlier) {
    for (const v1::TableSlice& slice : earlier.tables) {
      if (earlier.name == experiment && slice.table() == table) {
        return &slice;
      }
    }
  }
  return absl::InternalError(
      absl::StrCat("experiment \"", experiment, "\" gave no table ", table, ", from which heads are taken"));
}

absl::StatusOr<const v1::Column*> ColumnOf(const v1::TableSlice& table, const std::string& name) {
  for (const v1::Column& column : table.columns()) {
    if (column.name() == name) {
      return &column;
    }
  }
  return absl::InternalError(absl::StrCat("table ", table.table(), " has no column ", name));
}

bool IsNull(const v1::Column& column, int row) {
  return column.null_size() > 0 && column.null(row);
}

}  // namespace ropelab::experiments
