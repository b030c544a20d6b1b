#include "server/experiments/table_builder.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <utility>

namespace ropelab::experiments {
namespace {

bool IsNull(const v1::Column& column, int64_t row) {
  return column.null_size() > 0 && column.null(static_cast<int>(row));
}

// Negative, zero or positive, as row a stands before, with or after row b in this column.
int Compare(const v1::Column& column, int64_t a, int64_t b) {
  const int x = static_cast<int>(a), y = static_cast<int>(b);
  if (IsNull(column, a) || IsNull(column, b)) {
    return static_cast<int>(IsNull(column, b)) - static_cast<int>(IsNull(column, a));
  }
  switch (column.type()) {
    case v1::Column::TEXT:
      return column.texts(x).compare(column.texts(y));
    case v1::Column::REAL:
      return column.reals(x) < column.reals(y) ? -1 : column.reals(x) > column.reals(y);
    default:
      return column.integers(x) < column.integers(y) ? -1 : column.integers(x) > column.integers(y);
  }
}

}  // namespace

TableBuilder::TableBuilder(const std::string& table, const std::vector<ColumnShape>& columns) {
  table_.slice.set_table(table);
  for (const ColumnShape& shape : columns) {
    v1::Column* column = table_.slice.add_columns();
    column->set_name(shape.name);
    column->set_type(shape.type);
    column->set_key(shape.key);
  }
}

v1::Column& TableBuilder::Next(v1::Column::Type type, bool is_null) {
  v1::Column& column = *table_.slice.mutable_columns(next_);
  assert(column.type() == type);
  (void)type;
  if (is_null && column.null_size() == 0) {
    for (int64_t row = 0; row < table_.slice.rows(); ++row) {
      column.add_null(false);
    }
    column.add_null(true);
  } else if (column.null_size() > 0) {
    column.add_null(is_null);
  }
  if (++next_ == table_.slice.columns_size()) {
    next_ = 0;
    table_.slice.set_rows(table_.slice.rows() + 1);
  }
  return column;
}

TableBuilder& TableBuilder::Integer(std::optional<int64_t> value) {
  Next(v1::Column::INTEGER, !value).add_integers(value.value_or(0));
  return *this;
}

TableBuilder& TableBuilder::Real(std::optional<double> value) {
  Next(v1::Column::REAL, !value).add_reals(value.value_or(0));
  return *this;
}

TableBuilder& TableBuilder::Text(std::optional<std::string> value) {
  Next(v1::Column::TEXT, !value).add_texts(value.value_or(""));
  return *this;
}

TableBuilder& TableBuilder::Boolean(std::optional<bool> value) {
  Next(v1::Column::BOOLEAN, !value).add_integers(value.value_or(false) ? 1 : 0);
  return *this;
}

void TableBuilder::KeepLastRowInSql() {
  table_.sql_rows.push_back(table_.slice.rows() - 1);
}

void TableBuilder::Permute(const std::vector<int64_t>& order) {
  for (v1::Column& column : *table_.slice.mutable_columns()) {
    v1::Column sorted;
    for (const int64_t row : order) {
      const int i = static_cast<int>(row);
      if (column.type() == v1::Column::TEXT) {
        sorted.add_texts(std::move(*column.mutable_texts(i)));
      } else if (column.type() == v1::Column::REAL) {
        sorted.add_reals(column.reals(i));
      } else {
        sorted.add_integers(column.integers(i));
      }
      if (column.null_size() > 0) {
        sorted.add_null(column.null(i));
      }
    }
    column.mutable_texts()->Swap(sorted.mutable_texts());
    column.mutable_reals()->Swap(sorted.mutable_reals());
    column.mutable_integers()->Swap(sorted.mutable_integers());
    column.mutable_null()->Swap(sorted.mutable_null());
  }
  std::vector<int64_t> now(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    now[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  }
  for (int64_t& row : table_.sql_rows) {
    row = now[static_cast<size_t>(row)];
  }
  std::sort(table_.sql_rows.begin(), table_.sql_rows.end());
}

Table TableBuilder::Finish(bool whole_in_sql) {
  assert(next_ == 0);
  const auto before = [&](int64_t a, int64_t b) {
    for (const v1::Column& column : table_.slice.columns()) {
      const int order = column.key() ? Compare(column, a, b) : 0;
      if (order != 0) {
        return order < 0;
      }
    }
    return false;
  };
  std::vector<int64_t> order(static_cast<size_t>(table_.slice.rows()));
  std::iota(order.begin(), order.end(), 0);
  if (!std::is_sorted(order.begin(), order.end(), before)) {
    std::stable_sort(order.begin(), order.end(), before);
    Permute(order);
  }
  table_.whole_in_sql = whole_in_sql;
  if (whole_in_sql) {
    table_.sql_rows.clear();
  }
  return std::move(table_);
}

std::vector<ColumnShape> WithLeadingColumns(std::vector<ColumnShape> columns) {
  columns.insert(columns.begin(), {{"model", v1::Column::TEXT, true},
                                   {"dtype", v1::Column::TEXT, true},
                                   {"numerics_class", v1::Column::TEXT, true}});
  return columns;
}

TableBuilder StatisticsTable() {
  return TableBuilder("statistics", WithLeadingColumns({{"name", v1::Column::TEXT, true},
                                                        {"checkpoint", v1::Column::TEXT, true},
                                                        {"detector", v1::Column::TEXT, true},
                                                        {"threshold", v1::Column::REAL, true},
                                                        {"seed", v1::Column::INTEGER, true},
                                                        {"value", v1::Column::REAL, false},
                                                        {"low", v1::Column::REAL, false},
                                                        {"high", v1::Column::REAL, false},
                                                        {"p", v1::Column::REAL, false},
                                                        {"n", v1::Column::INTEGER, false},
                                                        {"undefined_because", v1::Column::TEXT, false}}));
}

TableBuilder SeriesTable() {
  return TableBuilder("series", WithLeadingColumns({{"name", v1::Column::TEXT, true},
                                                    {"x", v1::Column::REAL, true},
                                                    {"y", v1::Column::REAL, false}}));
}

}  // namespace ropelab::experiments
