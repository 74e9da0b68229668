// CSV files whose rows are described structs (describe.h): scalar fields and optionals of them.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "formats/csv.h"
#include "formats/describe.h"

namespace tangram::formats {

// The fields of a struct in the order of its description, each with the column in which the file has it.
class Columns {
 public:
  static constexpr int kAbsent = -1;

  void about(std::string_view, std::string_view) {}
  void rule(bool, RuleKeys, std::string_view) {}
  template <typename T>
  void field(std::string_view key, T&, const Limits& limits, std::string_view) {
    keys_.emplace_back(key);
    required_.push_back(limits.required);
  }
  template <typename T>
  void field(std::string_view key, T& value, std::string_view help) {
    field(key, value, Limits{}, help);
  }

  // Finds the fields in a header row. Missing and repeated columns are problems, unknown ones only if `strict`. False
  // if rows cannot be read under this header; an unknown column alone does not prevent that.
  bool bind(const std::vector<CsvField>& header, bool strict, Problems& problems);

  std::size_t width() const { return width_; }
  const std::vector<std::string>& keys() const { return keys_; }
  int column(std::size_t field) const { return columns_[field]; }
  // The column of a key, or kAbsent.
  int column_of(std::string_view key) const;

 private:
  std::vector<std::string> keys_;
  std::vector<bool> required_;
  std::vector<int> columns_;
  std::size_t width_ = 0;
};

// A row and the places of its cells.
struct RowPlace {
  const Columns& columns;
  const std::vector<CsvField>& row;

  int line() const { return row.front().line; }
  // The place of a cell, or of the row where the file has no such column.
  Position of(std::string_view key) const {
    const int column = columns.column_of(key);
    return column == Columns::kAbsent ? row.front().at() : row[static_cast<std::size_t>(column)].at();
  }
};

// The visitor that fills a struct from one row. Blank cells leave optionals and defaults as they are.
class RowReader {
 public:
  RowReader(const RowPlace& place, Problems& problems) : place_(place), problems_(problems) {}

  // True if each of these fields was read without a problem, so that a rule may judge them together.
  bool right(RuleKeys keys) const { return detail::all_right(keys, wrong_); }

  void about(std::string_view, std::string_view) {}
  void rule(bool holds, RuleKeys keys, std::string_view message) {
    if (!holds && right(keys)) problems_.add(place_.of(*keys.begin()), std::string(message));
  }
  template <typename T>
  void field(std::string_view key, T& value, const Limits& limits, std::string_view) {
    const int column = place_.columns.column(next_++);
    if (column == Columns::kAbsent) return;
    const CsvField& cell = place_.row[static_cast<std::size_t>(column)];
    const std::string_view text = cell.quoted ? cell.text : text::trim(cell.text);
    if (text.empty()) return blank<T>(cell, key, limits);
    std::string problem;
    if constexpr (detail::is_a<T, std::optional>) {
      problem = detail::read_scalar(text, key, limits, value.emplace());
    } else {
      problem = detail::read_scalar(text, key, limits, value);
    }
    if (!problem.empty()) report(cell, key, problem);
  }
  template <typename T>
  void field(std::string_view key, T& value, std::string_view help) {
    field(key, value, Limits{}, help);
  }

 private:
  template <typename T>
  void blank(const CsvField& cell, std::string_view key, const Limits& limits) {
    if (limits.required && !detail::is_a<T, std::optional>) {
      report(cell, key, "has no value");
    }
  }

  void report(const CsvField& cell, std::string_view key, const std::string& text) {
    problems_.add(cell.at(), std::string(key) + " " + text);
    wrong_.push_back(key);
  }

  const RowPlace& place_;
  Problems& problems_;
  std::vector<std::string_view> wrong_;
  std::size_t next_ = 0;
};

// The visitor that writes one row.
class RowWriter {
 public:
  void about(std::string_view, std::string_view) {}
  void rule(bool, RuleKeys, std::string_view) {}
  template <typename T>
  void field(std::string_view key, T& value, const Limits&, std::string_view) {
    const auto node = Writer(Defaults::keep).write(value, key);
    cells_.push_back(node ? node->text : std::string());
  }
  template <typename T>
  void field(std::string_view key, T& value, std::string_view help) {
    field(key, value, Limits{}, help);
  }
  const std::vector<std::string>& cells() const { return cells_; }

 private:
  std::vector<std::string> cells_;
};

enum class Header {
  strict,   // Files of ours: an unknown column is a slip of the pen.
  lenient,  // Files of others: columns that are not needed are passed over.
};

// False after reporting a row that has more or fewer fields than the header.
bool right_width(const std::vector<CsvField>& row, const Columns& columns, Problems& problems);
// Reports a file that is no CSV of UTF-8 text, or has no header; true if there is one in `header`.
bool read_header(const Source& source, CsvReader& reader, std::vector<CsvField>& header, Problems& problems);

// Calls `judge(T& row, const RowPlace& place, const RowReader& read)` for each row, which reports problems between
// fields that were read well, and then `use(T&& row, const RowPlace& place)` if the row has no problem, in order. Stops
// at once if rows cannot be read under the header.
template <typename T, typename Judge, typename Use>
void for_each_judged_row(const Source& source, Header header, Problems& problems, Judge&& judge, Use&& use) {
  CsvReader reader(source.text, problems);
  std::vector<CsvField> row;
  if (!read_header(source, reader, row, problems)) return;
  Columns columns;
  T prototype{};
  describe(columns, prototype);
  if (!columns.bind(row, header == Header::strict, problems)) return;
  while (reader.next(row)) {
    if (!right_width(row, columns, problems)) continue;
    const std::size_t before = problems.count();
    const RowPlace place{columns, row};
    RowReader fields(place, problems);
    T value{};
    describe(fields, value);
    judge(value, place, fields);
    if (problems.count() == before) use(std::move(value), place);
  }
}

// The same for rows without checks beyond their description.
template <typename T, typename Use>
void for_each_row(const Source& source, Header header, Problems& problems, Use&& use) {
  for_each_judged_row<T>(
      source, header, problems, [](const T&, const RowPlace&, const RowReader&) {}, std::forward<Use>(use));
}

// All columns, but for the last `optional`: of these the ones behind the last that some row fills are left out.
template <typename T>
std::string write_table(const std::vector<T>& rows, std::size_t optional = 0) {
  Columns columns;
  T prototype{};
  describe(columns, prototype);
  std::vector<std::vector<std::string>> cells{columns.keys()};
  std::size_t used = cells[0].size() - optional;
  for (const auto& row : rows) {
    RowWriter writer;
    T copy = row;
    describe(writer, copy);
    cells.push_back(writer.cells());
    for (std::size_t c = used; c < cells.back().size(); ++c) used = cells.back()[c].empty() ? used : c + 1;
  }
  std::string out;
  for (auto& row : cells) {
    row.resize(used);
    append_csv_row(out, row);
  }
  return out;
}

}  // namespace tangram::formats
