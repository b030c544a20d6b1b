// Fills a result table row by row and sorts it as the contract says.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/experiments/experiment.h"

namespace ropelab::experiments {

struct ColumnShape {
  const char* name;
  v1::Column::Type type;
  bool key;
};

// One call per column and row, columns in their order; a column of the wrong type is a programming error.
class TableBuilder {
 public:
  TableBuilder(const std::string& table, const std::vector<ColumnShape>& columns);

  TableBuilder& Integer(std::optional<int64_t> value);
  TableBuilder& Real(std::optional<double> value);
  TableBuilder& Text(std::optional<std::string> value);
  TableBuilder& Boolean(std::optional<bool> value);

  int64_t rows() const { return table_.slice.rows(); }

  // The row just filled is one of those that SQL holds.
  void KeepLastRowInSql();
  // Sorts by the key columns in their order: null first, numbers by value, texts by bytes.
  Table Finish(bool whole_in_sql);

 private:
  v1::Column& Next(v1::Column::Type type, bool is_null);
  void Permute(const std::vector<int64_t>& order);

  Table table_;
  int next_ = 0;
};

// "model", "dtype" and "numerics_class" lead every table.
std::vector<ColumnShape> WithLeadingColumns(std::vector<ColumnShape> columns);
// The table `statistics`, with its columns.
TableBuilder StatisticsTable();
// The table `series`: y against x, by name.
TableBuilder SeriesTable();

}  // namespace ropelab::experiments
