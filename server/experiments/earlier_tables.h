// Reading the tables of an earlier experiment.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "server/experiments/experiment.h"

namespace ropelab::experiments {

// INTERNAL where the experiment is not in the context or has no such table.
absl::StatusOr<const v1::TableSlice*> EarlierTable(const Context& context, const std::string& experiment,
                                                   const std::string& table);
// INTERNAL where the table has no such column.
absl::StatusOr<const v1::Column*> ColumnOf(const v1::TableSlice& table, const std::string& name);
bool IsNull(const v1::Column& column, int row);

}  // namespace ropelab::experiments
