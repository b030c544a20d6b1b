#include "client/text_table.h"

#include <algorithm>
#include <utility>

#include "client/human.h"

namespace ropelab::client {
namespace {

constexpr char kEmpty[] = "-";

// "heading a, b, c" in lines of a terminal's width, those after the first set in; nothing for no items.
std::string Enumerated(const std::string& heading, const std::vector<std::string>& items) {
  std::string text;
  std::string line = heading;
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string item = items[i] + (i + 1 < items.size() ? "," : "");
    if (i > 0 && static_cast<size_t>(DisplayWidth(line + " " + item)) > kTerminalWidth) {
      text += line + "\n";
      line = "  " + item;
    } else {
      line += (i > 0 ? " " : "") + item;
    }
  }
  return items.empty() ? "" : text + line + "\n";
}

}  // namespace

TextTable::TextTable(std::vector<Heading> headings) : headings_(std::move(headings)) {
  for (const Heading& heading : headings_) {
    widths_.push_back(static_cast<size_t>(DisplayWidth(heading.name)));
  }
}

void TextTable::AddRow(std::vector<std::string> cells) {
  cells.resize(headings_.size());
  for (size_t i = 0; i < cells.size(); ++i) {
    cells[i] = cells[i].empty() ? kEmpty : Printable(cells[i]);
    widths_[i] = std::max(widths_[i], static_cast<size_t>(DisplayWidth(cells[i])));
  }
  rows_.push_back(std::move(cells));
}

std::string TextTable::Render() const {
  std::string text;
  const auto add_line = [&](const auto& cell_of) {
    std::string line;
    for (size_t i = 0; i < headings_.size(); ++i) {
      const std::string& cell = cell_of(i);
      const std::string padding(widths_[i] - static_cast<size_t>(DisplayWidth(cell)), ' ');
      line += i == 0 ? "" : "  ";
      line += headings_[i].align == Align::kRight ? padding + cell : cell + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  add_line([&](size_t i) -> const std::string& { return headings_[i].name; });
  for (const auto& row : rows_) {
    add_line([&](size_t i) -> const std::string& { return row[i]; });
  }
  return text;
}

bool TextTable::IsConstant(size_t column) const {
  return std::all_of(rows_.begin(), rows_.end(),
                     [&](const auto& row) { return row[column] == rows_.front()[column]; });
}

std::string TextTable::RenderWithin(size_t width) const {
  size_t wide = 0;
  for (const size_t column : widths_) wide += column + 2;
  TextTable rest({});
  std::vector<std::string> shared;
  std::vector<std::string> empty;
  std::vector<size_t> kept;
  for (size_t i = 0; i < headings_.size(); ++i) {
    if (wide > width + 2 && rows_.size() >= 2 && IsConstant(i)) {
      if (rows_.front()[i] == kEmpty) {
        empty.push_back(headings_[i].name);
      } else {
        shared.push_back(headings_[i].name + " " + rows_.front()[i]);
      }
      wide -= widths_[i] + 2;
      continue;
    }
    kept.push_back(i);
    rest.headings_.push_back(headings_[i]);
    rest.widths_.push_back(widths_[i]);
  }
  if ((shared.empty() && empty.empty()) || kept.empty()) {
    return Render();
  }
  for (const auto& row : rows_) {
    std::vector<std::string> cells;
    for (const size_t i : kept) cells.push_back(row[i]);
    rest.rows_.push_back(std::move(cells));
  }
  return Enumerated("in every row: ", shared) + Enumerated("empty in every row: ", empty) + rest.Render();
}

std::string RenderPairs(const std::vector<std::pair<std::string, std::string>>& pairs) {
  size_t width = 0;
  for (const auto& [name, value] : pairs) {
    width = std::max(width, name.size());
  }
  std::string text;
  for (const auto& [name, value] : pairs) {
    text += name + ":" + std::string(width - name.size() + 2, ' ') + Printable(value) + "\n";
  }
  return text;
}

}  // namespace ropelab::client
