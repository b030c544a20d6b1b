#include "client/slice_format.h"

#include <cstdio>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cells.h"
#include "client/human.h"
#include "client/text_table.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"

namespace ropelab::client {
namespace {

std::string Digits(const char* format, double value) {
  char text[40];
  const int length = std::snprintf(text, sizeof text, format, value);
  return std::string(text, static_cast<size_t>(length));
}

// A number or boolean that is not null; the same in csv and JSON.
std::string Plain(const v1::Column& column, int row, const char* real_format) {
  switch (column.type()) {
    case v1::Column::BOOLEAN:
      return column.integers(row) != 0 ? "true" : "false";
    case v1::Column::REAL:
      return Digits(real_format, column.reals(row));
    default:
      return absl::StrCat(column.integers(row));
  }
}

std::string CsvText(const std::string& text) {
  if (!text.empty() && text.find_first_of(",\"\r\n") == std::string::npos) {
    return text;
  }
  std::string quoted = "\"";
  for (char c : text) {
    quoted += c;
    if (c == '"') quoted += c;
  }
  return quoted + "\"";
}

std::string JsonTextValue(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

class CsvWriter : public SliceWriter {
 public:
  std::string Finish() override { return ""; }

 private:
  std::string Render(const v1::TableSlice& slice, bool first) override {
    std::string text;
    const auto end_cell = [&](int column) { text += column + 1 < slice.columns_size() ? ',' : '\n'; };
    for (int c = 0; first && c < slice.columns_size(); ++c) {
      text += CsvText(slice.columns(c).name());
      end_cell(c);
    }
    for (int row = 0; row < slice.rows(); ++row) {
      for (int c = 0; c < slice.columns_size(); ++c) {
        const v1::Column& column = slice.columns(c);
        if (!IsNullCell(column, row)) {
          text +=
              column.type() == v1::Column::TEXT ? CsvText(column.texts(row)) : Plain(column, row, "%.17g");
        }
        end_cell(c);
      }
    }
    return text;
  }
};

class JsonLinesWriter : public SliceWriter {
 public:
  std::string Finish() override { return ""; }

 private:
  std::string Render(const v1::TableSlice& slice, bool) override {
    std::string text;
    for (int row = 0; row < slice.rows(); ++row) {
      text += '{';
      for (int c = 0; c < slice.columns_size(); ++c) {
        const v1::Column& column = slice.columns(c);
        absl::StrAppend(&text, c == 0 ? "" : ",", JsonTextValue(column.name()), ":");
        text += IsNullCell(column, row)             ? "null"
                : column.type() == v1::Column::TEXT ? JsonTextValue(column.texts(row))
                                                    : Plain(column, row, "%.17g");
      }
      text += "}\n";
    }
    return text;
  }
};

class AlignedWriter : public SliceWriter {
 public:
  std::string Finish() override {
    return absl::StrCat(table_.has_value() ? table_->RenderWithin(kTerminalWidth) : "", "(", Rows(), ")\n");
  }

 private:
  std::string Render(const v1::TableSlice& slice, bool first) override {
    if (first) {
      std::vector<TextTable::Heading> headings;
      for (const v1::Column& column : slice.columns()) {
        headings.push_back({column.name(), column.type() == v1::Column::TEXT ? TextTable::Align::kLeft
                                                                             : TextTable::Align::kRight});
      }
      table_.emplace(std::move(headings));
    }
    for (int row = 0; row < slice.rows(); ++row) {
      std::vector<std::string> cells;
      for (const v1::Column& column : slice.columns()) {
        cells.push_back(IsNullCell(column, row)             ? "-"
                        : column.type() == v1::Column::TEXT ? column.texts(row)
                                                            : Plain(column, row, "%.6g"));
      }
      table_->AddRow(std::move(cells));
    }
    return "";
  }

  std::optional<TextTable> table_;
};

}  // namespace

absl::Status SliceWriter::Check(const v1::TableSlice& slice) {
  const auto broken = [&](const std::string& problem) {
    return absl::DataLossError(
        absl::StrCat("the server sent a broken slice of table ", slice.table(), ": ", problem));
  };
  if (!first_ && slice.columns_size() != heading_.columns_size()) {
    return broken(absl::StrCat(slice.columns_size(), " columns after ", heading_.columns_size()));
  }
  for (int c = 0; c < slice.columns_size(); ++c) {
    const v1::Column& column = slice.columns(c);
    int64_t values = -1;
    switch (column.type()) {
      case v1::Column::INTEGER:
      case v1::Column::BOOLEAN:
        values = column.integers_size();
        break;
      case v1::Column::REAL:
        values = column.reals_size();
        break;
      case v1::Column::TEXT:
        values = column.texts_size();
        break;
      default:
        return broken(absl::StrCat("column ", column.name(), " has a type that this client does not know"));
    }
    if (values != slice.rows() || (column.null_size() != 0 && column.null_size() != slice.rows())) {
      return broken(absl::StrCat("column ", column.name(), " has ", values, " values and ",
                                 column.null_size(), " null marks for ", slice.rows(), " rows"));
    }
    if (!first_ &&
        (column.name() != heading_.columns(c).name() || column.type() != heading_.columns(c).type())) {
      return broken(absl::StrCat("column ", column.name(), " where ", heading_.columns(c).name(), " was"));
    }
  }
  return absl::OkStatus();
}

std::string SliceWriter::Rows() const {
  return kept_ == rows_ ? Counted(rows_, "row") : absl::StrCat(kept_, " of ", Counted(rows_, "row"));
}

absl::StatusOr<std::string> SliceWriter::Add(v1::TableSlice slice) {
  ROPELAB_RETURN_IF_ERROR(Check(slice));
  if (first_) {
    for (const v1::Column& column : slice.columns()) {
      v1::Column* heading = heading_.add_columns();
      heading->set_name(column.name());
      heading->set_type(column.type());
    }
  }
  rows_ += slice.rows();
  ROPELAB_RETURN_IF_ERROR(filter_.Apply(&slice));
  kept_ += slice.rows();
  std::string text = Render(slice, first_);
  first_ = false;
  return text;
}

absl::StatusOr<std::unique_ptr<SliceWriter>> MakeSliceWriter(const std::string& format, RowFilter filter) {
  std::unique_ptr<SliceWriter> writer;
  if (format == "csv") {
    writer = std::make_unique<CsvWriter>();
  } else if (format == "jsonl") {
    writer = std::make_unique<JsonLinesWriter>();
  } else if (format == "table") {
    writer = std::make_unique<AlignedWriter>();
  } else {
    return absl::InvalidArgumentError(absl::StrCat("--format ", format, ": is not one of table, csv, jsonl"));
  }
  writer->filter_ = std::move(filter);
  return writer;
}

}  // namespace ropelab::client
