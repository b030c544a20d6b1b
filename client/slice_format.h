// Result tables as text, slice by slice. Pure: what comes out depends on the slices alone.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/row_filter.h"
#include "ropelab/v1/results.pb.h"

namespace ropelab::client {

// Slices in, text out: of the rows that the filter keeps. Errors: DATA_LOSS for a slice whose columns do not
// fit its row count or the slice before it; INVALID_ARGUMENT where the filter does not fit the table.
class SliceWriter {
 public:
  virtual ~SliceWriter() = default;
  absl::StatusOr<std::string> Add(v1::TableSlice slice);
  // What stands after the last slice.
  virtual std::string Finish() = 0;

 protected:
  virtual std::string Render(const v1::TableSlice& slice, bool first) = 0;
  // "3 rows", or "3 of 20 rows" where the filter left others out.
  std::string Rows() const;

 private:
  friend absl::StatusOr<std::unique_ptr<SliceWriter>> MakeSliceWriter(const std::string& format,
                                                                      RowFilter filter);
  absl::Status Check(const v1::TableSlice& slice);
  RowFilter filter_;
  v1::TableSlice heading_;  // names and types of the first slice
  bool first_ = true;
  int64_t rows_ = 0;  // that came
  int64_t kept_ = 0;
};

// csv:   RFC 4180 quoting, lines ended by \n; a null is empty, an empty text is "" in quotes; true, false
// jsonl: one object a line, keys in column order; a null is null
// table: aligned, six significant digits, a null is -; the row count at the end. Keeps all rows until Finish
// In csv and jsonl doubles carry 17 significant digits and memory does not grow with rows; a double that is
// not finite is an undefined number, written as a null. Errors: INVALID_ARGUMENT for another name.
absl::StatusOr<std::unique_ptr<SliceWriter>> MakeSliceWriter(const std::string& format,
                                                             RowFilter filter = {});

}  // namespace ropelab::client
