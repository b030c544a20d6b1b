// Rows to slices by one rule, so that a table gives the same slices whether it was read from SQL or from a
// file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "ropelab/v1/results.pb.h"

namespace ropelab::store {

// The table's name and columns (name, type, key) without rows.
v1::TableSlice HeaderOf(const v1::TableSlice& slice);
// INTERNAL where a column's values or nulls are not one per row.
absl::Status CheckSlice(const v1::TableSlice& slice);

// One cell, canonical: an undefined number (NaN) is null, and -0 is 0, since SQLite keeps neither; every
// other double keeps its bits. Views point into the slice.
struct Cell {
  bool null = false;
  v1::Column::Type type = v1::Column::UNKNOWN;
  int64_t integer = 0;  // INTEGER, BOOLEAN
  double real = 0;
  std::string_view text;
};
Cell CellOf(const v1::Column& column, int64_t row);

// Cells row by row, columns in the header's order. A slice ends with the row that makes it 1 MiB; a table
// without rows is one slice without rows.
class SliceWriter {
 public:
  using Emit = absl::FunctionRef<absl::Status(const v1::TableSlice&)>;
  SliceWriter(const v1::TableSlice& header, Emit emit);
  void Add(int column, const Cell& cell);
  absl::Status EndRow();
  absl::Status Finish();

 private:
  absl::Status EmitSlice();

  const v1::TableSlice header_;
  Emit emit_;
  v1::TableSlice slice_;
  int64_t bytes_ = 0;
  bool emitted_ = false;
};

}  // namespace ropelab::store
