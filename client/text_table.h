// Aligned columns for a person's eyes.
#pragma once

#include <string>
#include <vector>

namespace ropelab::client {

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
  size_t rows() const { return rows_.size(); }

 private:
  std::vector<Heading> headings_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<size_t> widths_;
};

// "name:   value" lines, values aligned, in order.
std::string RenderPairs(const std::vector<std::pair<std::string, std::string>>& pairs);

}  // namespace ropelab::client
