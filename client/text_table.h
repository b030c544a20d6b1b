// Aligned columns for a person's eyes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ropelab::client {

// What tables try to fit into.
inline constexpr size_t kTerminalWidth = 100;

class TextTable {
 public:
  enum class Align { kLeft, kRight };
  struct Heading {
    std::string name;
    Align align = Align::kLeft;
  };

  explicit TextTable(std::vector<Heading> headings);
  // As many cells as headings. Control characters become spaces; an empty cell shows as "-".
  void AddRow(std::vector<std::string> cells);
  // Heading line, then rows, columns two spaces apart, no spaces at line ends.
  std::string Render() const;
  // The same, but where lines would be wider than `width` and there are two rows or more, columns that hold
  // one value in all rows stand once in lines above, as many from the left as it takes; of those that are
  // empty in all rows the names.
  std::string RenderWithin(size_t width) const;
  size_t rows() const { return rows_.size(); }

 private:
  bool IsConstant(size_t column) const;

  std::vector<Heading> headings_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<size_t> widths_;
};

// "name:   value" lines, values aligned, in order.
std::string RenderPairs(const std::vector<std::pair<std::string, std::string>>& pairs);

}  // namespace ropelab::client
