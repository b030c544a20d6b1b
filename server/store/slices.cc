#include "server/store/slices.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace ropelab::store {
namespace {

constexpr int64_t kSliceBytes = 1 << 20;

int64_t ValuesOf(const v1::Column& column) {
  switch (column.type()) {
    case v1::Column::INTEGER:
    case v1::Column::BOOLEAN:
      return column.integers_size();
    case v1::Column::REAL:
      return column.reals_size();
    case v1::Column::TEXT:
      return column.texts_size();
    default:
      return -1;
  }
}

}  // namespace

v1::TableSlice HeaderOf(const v1::TableSlice& slice) {
  v1::TableSlice header;
  header.set_table(slice.table());
  for (const v1::Column& column : slice.columns()) {
    v1::Column* bare = header.add_columns();
    bare->set_name(column.name());
    bare->set_type(column.type());
    bare->set_key(column.key());
  }
  return header;
}

absl::Status CheckSlice(const v1::TableSlice& slice) {
  for (const v1::Column& column : slice.columns()) {
    const bool nulls_fit = column.null_size() == 0 || column.null_size() == slice.rows();
    if (ValuesOf(column) == slice.rows() && nulls_fit) continue;
    return absl::InternalError(absl::StrCat("table ", slice.table(), ": column ", column.name(), " has ",
                                            ValuesOf(column), " values and ", column.null_size(),
                                            " null flags for ", slice.rows(), " rows"));
  }
  return absl::OkStatus();
}

Cell CellOf(const v1::Column& column, int64_t row) {
  const int at = static_cast<int>(row);
  Cell cell;
  cell.type = column.type();
  cell.null = column.null_size() > 0 && column.null(at);
  if (cell.null) return cell;
  if (cell.type == v1::Column::REAL) {
    cell.real = column.reals(at) + 0.0;  // -0 becomes 0, as it does in SQLite
    cell.null = std::isnan(cell.real);
    if (cell.null) cell.real = 0;
  } else if (cell.type == v1::Column::TEXT) {
    cell.text = column.texts(at);
  } else {
    cell.integer = column.integers(at);
  }
  return cell;
}

SliceWriter::SliceWriter(const v1::TableSlice& header, Emit emit)
    : header_(header), emit_(emit), slice_(header) {}

void SliceWriter::Add(int column, const Cell& cell) {
  v1::Column& to = *slice_.mutable_columns(column);
  switch (to.type()) {
    case v1::Column::REAL:
      to.add_reals(cell.real);
      break;
    case v1::Column::TEXT:
      to.add_texts(cell.text.data(), cell.text.size());
      break;
    default:
      to.add_integers(cell.integer);
  }
  to.add_null(cell.null);
  bytes_ += 9 + static_cast<int64_t>(cell.text.size());
}

absl::Status SliceWriter::EndRow() {
  slice_.set_rows(slice_.rows() + 1);
  return bytes_ >= kSliceBytes ? EmitSlice() : absl::OkStatus();
}

absl::Status SliceWriter::Finish() {
  return slice_.rows() > 0 || !emitted_ ? EmitSlice() : absl::OkStatus();
}

absl::Status SliceWriter::EmitSlice() {
  for (v1::Column& column : *slice_.mutable_columns()) {
    if (std::none_of(column.null().begin(), column.null().end(), [](bool null) { return null; }))
      column.clear_null();
  }
  emitted_ = true;
  ROPELAB_RETURN_IF_ERROR(emit_(slice_));
  slice_ = header_;
  bytes_ = 0;
  return absl::OkStatus();
}

}  // namespace ropelab::store
