// `--where COLUMN=VALUE`: the rows of a table that somebody asks for. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ropelab/v1/results.pb.h"

namespace ropelab::client {

// Keeps the rows that every condition holds of. A number is compared as a number (0.10 is 0.1), a text letter
// by letter, and nothing after = asks for cells that are empty.
class RowFilter {
 public:
  // Errors: INVALID_ARGUMENT for a condition without = or without a column.
  static absl::StatusOr<RowFilter> Parse(const std::vector<std::string>& conditions);

  // Takes the other rows out of a slice whose columns fit its row count. Errors: INVALID_ARGUMENT for a
  // column that the table lacks, with those it has, and for a value that the column cannot hold.
  absl::Status Apply(v1::TableSlice* slice) const;

 private:
  std::vector<std::pair<std::string, std::string>> conditions_;  // column, value
};

}  // namespace ropelab::client
