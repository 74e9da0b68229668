// Tables of text with aligned columns.
//
// In a terminal, columns that may shrink are cut until the table fits; in a file or pipe nothing is cut, because a
// program or a search may need the whole text.

#include "report/table.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "report/text_width.h"

namespace tangram::report {
namespace {

constexpr int kGap = 2;
// A column shrinks to 8 characters at least: less is not recognisable.
constexpr int kShrunkMin = 8;

std::string cell_text(const Column& column, const std::string& text, int width) {
  const std::string cut = cut_to_width(text, width);
  return column.align == Align::right ? pad_left(cut, width) : pad_right(cut, width);
}

void trim_right(std::string& line) { line.erase(line.find_last_not_of(' ') + 1); }

}  // namespace

void Table::add(std::vector<Cell> row) {
  TANGRAM_CHECK(row.size() == columns_.size(), "a row has one cell for each column");
  rows_.push_back(std::move(row));
}

std::vector<int> Table::widths(const Terminal& terminal, int indent) const {
  std::vector<int> result;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    int width = display_width(columns_[i].title);
    for (const auto& row : rows_) width = std::max(width, display_width(row[i].text));
    result.push_back(width);
  }
  if (!terminal.interactive) return result;
  const int gaps = kGap * (static_cast<int>(columns_.size()) - 1);
  int excess = indent + gaps + std::accumulate(result.begin(), result.end(), 0) - terminal.width;
  // From left to right, each as far as it can: the first column that shrinks is cut first.
  for (std::size_t i = 0; i < columns_.size() && excess > 0; ++i) {
    if (!columns_[i].shrinks) continue;
    const int width = std::max(std::min(kShrunkMin, result[i]), result[i] - excess);
    excess -= result[i] - width;
    result[i] = width;
  }
  return result;
}

std::string Table::render(const Terminal& terminal, int indent) const {
  const std::vector<int> width = widths(terminal, indent);
  const std::string begin(static_cast<std::size_t>(indent), ' ');
  const auto line = [&](auto&& cell) {
    std::string text = begin;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (i > 0) text += std::string(kGap, ' ');
      text += cell(i);
    }
    // Trailing spaces make diffs noisy.
    trim_right(text);
    return text + "\n";
  };
  std::string result = line(
      [&](std::size_t i) { return paint(terminal, Style::bold, cell_text(columns_[i], columns_[i].title, width[i])); });
  for (const auto& row : rows_) {
    result += line(
        [&](std::size_t i) { return paint(terminal, row[i].style, cell_text(columns_[i], row[i].text, width[i])); });
  }
  return result;
}

}  // namespace tangram::report
