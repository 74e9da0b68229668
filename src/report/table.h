// Text in columns.
#pragma once

#include <string>
#include <vector>

#include "report/style.h"

namespace tangram::report {

enum class Align { left, right };

struct Column {
  std::string title;
  Align align = Align::left;
  bool shrinks = false;  // May be cut short where the table is wider than the terminal.
};

struct Cell {
  Cell(std::string cell_text, Style cell_style = Style::plain) : text(std::move(cell_text)), style(cell_style) {}
  Cell(const char* cell_text) : text(cell_text) {}

  std::string text;
  Style style = Style::plain;
};

// Rows are collected, then drawn at once, because widths follow from the longest cell. Columns are two spaces
// apart. A table that no person watches is never cut, so that scripts see everything.
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // One cell for each column.
  void add(std::vector<Cell> row);
  bool empty() const { return rows_.empty(); }

  // The whole table, every line ended, each begun with `indent` spaces.
  std::string render(const Terminal& terminal, int indent = 0) const;

 private:
  std::vector<int> widths(const Terminal& terminal, int indent) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace tangram::report
