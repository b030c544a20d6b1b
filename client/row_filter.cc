#include "client/row_filter.h"

#include <cmath>
#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/cells.h"
#include "common/status_macros.h"

namespace ropelab::client {
namespace {

absl::Status WrongCondition(const std::string& condition, const std::string& problem) {
  return absl::InvalidArgumentError(absl::StrCat("--where ", condition, ": ", problem));
}

template <typename Values, typename Value>
void Unmark(const v1::Column& column, const Values& values, const Value& wanted, std::vector<bool>* kept) {
  for (int row = 0; row < static_cast<int>(kept->size()); ++row) {
    if (IsNullCell(column, row) || values[row] != wanted) (*kept)[static_cast<size_t>(row)] = false;
  }
}

// Unmarks the rows in which `column` does not hold `value`.
absl::Status Compare(const v1::Column& column, const std::string& value, std::vector<bool>* kept) {
  const auto wrong = [&](const std::string& holds) {
    return WrongCondition(absl::StrCat(column.name(), "=", value),
                          absl::StrCat("the column holds ", holds, "; nothing after = asks for empty cells"));
  };
  if (value.empty()) {
    for (int row = 0; row < static_cast<int>(kept->size()); ++row) {
      const bool empty =
          IsNullCell(column, row) || (column.type() == v1::Column::TEXT && column.texts(row).empty());
      if (!empty) (*kept)[static_cast<size_t>(row)] = false;
    }
    return absl::OkStatus();
  }
  switch (column.type()) {
    case v1::Column::INTEGER: {
      int64_t number = 0;
      if (!absl::SimpleAtoi(value, &number)) return wrong("whole numbers");
      Unmark(column, column.integers(), number, kept);
      return absl::OkStatus();
    }
    case v1::Column::BOOLEAN: {
      bool flag = false;
      if (!absl::SimpleAtob(value, &flag)) return wrong("true and false");
      Unmark(column, column.integers(), int64_t{flag}, kept);
      return absl::OkStatus();
    }
    case v1::Column::REAL: {
      double number = 0;
      if (!absl::SimpleAtod(value, &number) || !std::isfinite(number)) return wrong("numbers");
      Unmark(column, column.reals(), number, kept);
      return absl::OkStatus();
    }
    default:
      Unmark(column, column.texts(), value, kept);
      return absl::OkStatus();
  }
}

template <typename Values>
void Keep(const std::vector<bool>& kept, Values* values) {
  if (values->empty()) return;
  int next = 0;
  for (int row = 0; row < static_cast<int>(kept.size()); ++row) {
    if (!kept[static_cast<size_t>(row)]) continue;
    if (next != row) (*values)[next] = (*values)[row];
    ++next;
  }
  values->erase(values->begin() + next, values->end());
}

}  // namespace

absl::StatusOr<RowFilter> RowFilter::Parse(const std::vector<std::string>& conditions) {
  RowFilter filter;
  for (const std::string& condition : conditions) {
    const size_t equals = condition.find('=');
    if (equals == std::string::npos || equals == 0) {
      return WrongCondition(condition, "is not COLUMN=VALUE, as in retrieval=true");
    }
    filter.conditions_.emplace_back(condition.substr(0, equals), condition.substr(equals + 1));
  }
  return filter;
}

absl::Status RowFilter::Apply(v1::TableSlice* slice) const {
  std::vector<bool> kept(static_cast<size_t>(slice->rows()), true);
  for (const auto& [name, value] : conditions_) {
    const v1::Column* found = nullptr;
    std::string names;
    for (const v1::Column& column : slice->columns()) {
      if (column.name() == name) found = &column;
      absl::StrAppend(&names, names.empty() ? "" : ", ", column.name());
    }
    if (found == nullptr) {
      return WrongCondition(absl::StrCat(name, "=", value),
                            absl::StrCat("the table has no column \"", name, "\"; it has ", names));
    }
    ROPELAB_RETURN_IF_ERROR(Compare(*found, value, &kept));
  }
  int64_t rows = 0;
  for (const bool keep : kept) rows += keep ? 1 : 0;
  for (v1::Column& column : *slice->mutable_columns()) {
    Keep(kept, column.mutable_integers());
    Keep(kept, column.mutable_reals());
    Keep(kept, column.mutable_texts());
    Keep(kept, column.mutable_null());
  }
  slice->set_rows(rows);
  return absl::OkStatus();
}

}  // namespace ropelab::client
