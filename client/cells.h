// Cells of a result table's columns.
#pragma once

#include <cmath>

#include "ropelab/v1/results.pb.h"

namespace ropelab::client {

// A double that is not finite is an undefined number.
inline bool IsNullCell(const v1::Column& column, int row) {
  return (row < column.null_size() && column.null(row)) ||
         (column.type() == v1::Column::REAL && !std::isfinite(column.reals(row)));
}

}  // namespace ropelab::client
