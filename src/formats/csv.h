// Comma-separated values as RFC 4180 has them, with places.
//
// Fields may be quoted, a quote inside is doubled, lines end in LF or CRLF, and a byte-order mark in front is passed
// over. Empty lines are skipped. Cost: one pass over the text; only fields with doubled quotes are copied.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "formats/problems.h"
#include "formats/source.h"

namespace tangram::formats {

inline constexpr std::size_t kCsvBytesMax = std::size_t{1} << 30;
inline constexpr std::size_t kCsvFieldsMax = 1'000;        // In one row.
inline constexpr std::size_t kCsvFieldBytesMax = 1 << 20;  // In one field.
inline constexpr std::size_t kCsvRowsMax = 50'000'000;

struct CsvField {
  std::string_view text;  // Without quotes; valid until the next row is read, and as long as the source.
  int line = 0;
  int column = 0;
  bool quoted = false;

  Position at() const { return {line, column}; }
};

class CsvReader {
 public:
  // The text must outlive the reader.
  CsvReader(std::string_view text, Problems& problems);

  // Fills `row` with the next row that is not empty. False at the end, and after a limit or a broken quote, which has
  // then been added to `problems`: the rest cannot be read.
  bool next(std::vector<CsvField>& row);

 private:
  // Each reads one field from offset_ and leaves offset_ at the comma or line end behind it. False after stop().
  bool read_field(CsvField& field);
  bool read_quoted(CsvField& field);
  void read_plain(CsvField& field);
  // Adds a problem and ends the text. Returns false.
  bool stop(Position at, std::string text);
  Position here() const;
  // Requires offset_ inside the text.
  bool at_line_end() const;
  // Passes one LF or CRLF, if there is one, and counts the line.
  void skip_line_end();

  std::string_view text_;
  Problems& problems_;
  std::size_t offset_ = 0;
  std::size_t line_begin_ = 0;
  int line_ = 1;
  std::size_t rows_ = 0;
  std::deque<std::string> unescaped_;  // Of the row at hand; a deque does not move them.
};

// Adds one row to `out`. Fields are quoted where they need it; lines end in LF.
void append_csv_row(std::string& out, const std::vector<std::string>& fields);

}  // namespace tangram::formats
