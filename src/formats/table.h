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
  void rule(bool, std::string_view, std::string_view) {}
  template <typename T>
  void field(std::string_view key, T&, const Limits& limits, std::string_view) {
    keys_.emplace_back(key);
    required_.push_back(limits.required);
  }
  template <typename T>
  void field(std::string_view key, T& value, std::string_view help) {
    field(key, value, Limits{}, help);
  }

  // Finds the fields in a header row. Missing and repeated columns are problems, unknown ones only where `strict`.
  void bind(const std::vector<CsvField>& header, bool strict, Problems& problems);

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

// A row and where its cells stand.
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
  RowReader(const RowPlace& place, Problems& problems)
      : place_(place), problems_(problems), count_before_(problems.count()) {}

  void about(std::string_view, std::string_view) {}
  void rule(bool holds, std::string_view key, std::string_view message) {
    if (!holds && problems_.count() == count_before_) problems_.add(place_.of(key), std::string(message));
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
    if (!problem.empty()) problems_.add(cell.at(), std::string(key) + " " + problem);
  }
  template <typename T>
  void field(std::string_view key, T& value, std::string_view help) {
    field(key, value, Limits{}, help);
  }

 private:
  template <typename T>
  void blank(const CsvField& cell, std::string_view key, const Limits& limits) {
    if (limits.required && !detail::is_a<T, std::optional>) {
      problems_.add(cell.at(), std::string(key) + " has no value");
    }
  }

  const RowPlace& place_;
  Problems& problems_;
  std::size_t count_before_;
  std::size_t next_ = 0;
};

// The visitor that writes one row.
class RowWriter {
 public:
  void about(std::string_view, std::string_view) {}
  void rule(bool, std::string_view, std::string_view) {}
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

bool right_width(const std::vector<CsvField>& row, const Columns& columns, Problems& problems);
// Reports a file that is no CSV of UTF-8 text, or has no header; true if there is one in `header`.
bool read_header(const Source& source, CsvReader& reader, std::vector<CsvField>& header, Problems& problems);

// Calls `use(T&& row, const RowPlace& place)` for each row that is right, in order. A header that is wrong ends it.
template <typename T, typename Use>
void for_each_row(const Source& source, Header header, Problems& problems, Use&& use) {
  CsvReader reader(source.text, problems);
  std::vector<CsvField> row;
  if (!read_header(source, reader, row, problems)) return;
  Columns columns;
  T prototype{};
  describe(columns, prototype);
  const std::size_t before_header = problems.count();
  columns.bind(row, header == Header::strict, problems);
  if (problems.count() != before_header) return;
  while (reader.next(row)) {
    if (!right_width(row, columns, problems)) continue;
    const std::size_t before = problems.count();
    const RowPlace place{columns, row};
    RowReader fields(place, problems);
    T value{};
    describe(fields, value);
    if (problems.count() == before) use(std::move(value), place);
  }
}

template <typename T>
std::string write_table(const std::vector<T>& rows) {
  Columns columns;
  T prototype{};
  describe(columns, prototype);
  std::string out;
  append_csv_row(out, columns.keys());
  for (const auto& row : rows) {
    RowWriter writer;
    T copy = row;
    describe(writer, copy);
    append_csv_row(out, writer.cells());
  }
  return out;
}

}  // namespace tangram::formats
