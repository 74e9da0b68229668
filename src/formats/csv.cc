// A CSV reader in one pass over the text.
//
// Fields are views into the text. Only a field with doubled quotes is copied, into unescaped_, which lives until the
// next row. Invariant: line_ and line_begin_ belong to offset_, also inside quoted fields that span lines.

#include "formats/csv.h"

#include <fmt/format.h>

#include "formats/detail/utf8.h"

namespace tangram::formats {

CsvReader::CsvReader(std::string_view text, Problems& problems)
    : text_(without_byte_order_mark(text)), problems_(problems) {
  if (text_.size() <= kCsvBytesMax) return;
  stop({}, fmt::format("longer than {} bytes", kCsvBytesMax));
}

// Views of the last row end here: unescaped_ is cleared.
bool CsvReader::next(std::vector<CsvField>& row) {
  // Empty lines are no rows, also at the end of the file.
  while (offset_ < text_.size() && at_line_end()) skip_line_end();
  row.clear();
  unescaped_.clear();
  if (offset_ >= text_.size()) return false;
  if (++rows_ > kCsvRowsMax) return stop(here(), fmt::format("more than {} rows", kCsvRowsMax));
  while (true) {
    // Limits stop a file that is no CSV at all before it fills the memory.
    if (row.size() >= kCsvFieldsMax) return stop(here(), fmt::format("more than {} fields in a row", kCsvFieldsMax));
    if (!read_field(row.emplace_back())) return false;
    if (offset_ >= text_.size() || text_[offset_] != ',') break;
    ++offset_;
  }
  skip_line_end();
  return true;
}

bool CsvReader::read_field(CsvField& field) {
  field.line = line_;
  field.column = static_cast<int>(offset_ - line_begin_) + 1;
  field.quoted = offset_ < text_.size() && text_[offset_] == '"';
  if (field.quoted && !read_quoted(field)) return false;
  if (!field.quoted) read_plain(field);
  if (field.text.size() <= kCsvFieldBytesMax) return true;
  return stop(field.at(), fmt::format("a field of more than {} bytes", kCsvFieldBytesMax));
}

void CsvReader::read_plain(CsvField& field) {
  const std::size_t begin = offset_;
  // A quote inside an unquoted field is an ordinary character.
  while (offset_ < text_.size() && text_[offset_] != ',' && text_[offset_] != '\n') ++offset_;
  std::size_t end = offset_;
  // The carriage return of a CRLF belongs to the line end. Elsewhere it is a part of the field.
  const bool line_end = offset_ >= text_.size() || text_[offset_] == '\n';
  if (line_end && end > begin && text_[end - 1] == '\r') --end;
  field.text = text_.substr(begin, end - begin);
}

bool CsvReader::read_quoted(CsvField& field) {
  const std::size_t begin = ++offset_;
  bool doubled = false;
  while (true) {
    if (offset_ >= text_.size()) return stop(field.at(), "a quoted field is never closed");
    const char c = text_[offset_++];
    if (c == '\n') {
      ++line_;
      line_begin_ = offset_;
    }
    if (c != '"') continue;
    if (offset_ >= text_.size() || text_[offset_] != '"') break;
    ++offset_;
    doubled = true;
  }
  field.text = text_.substr(begin, offset_ - 1 - begin);
  if (offset_ < text_.size() && text_[offset_] != ',' && !at_line_end()) {
    return stop(here(), "unexpected text after a closing quote; expected a comma or the end of the line");
  }
  // The common case needs no copy.
  if (!doubled) return true;
  std::string& text = unescaped_.emplace_back();
  for (std::size_t i = 0; i < field.text.size(); ++i) {
    text += field.text[i];
    if (field.text[i] == '"') ++i;
  }
  field.text = text;
  return true;
}

// Reports the problem and moves to the end: after a broken quote, the rest could only give misleading messages.
bool CsvReader::stop(Position at, std::string text) {
  problems_.add(at, std::move(text));
  offset_ = text_.size();
  return false;
}

Position CsvReader::here() const { return {line_, static_cast<int>(offset_ - line_begin_) + 1}; }

// Requires offset_ inside the text. A lone carriage return counts only as the last byte of the text.
bool CsvReader::at_line_end() const {
  return text_[offset_] == '\n' || text_.substr(offset_, 2) == "\r\n" || text_.substr(offset_) == "\r";
}

void CsvReader::skip_line_end() {
  if (offset_ < text_.size() && text_[offset_] == '\r') ++offset_;
  if (offset_ >= text_.size() || text_[offset_] != '\n') return;
  ++offset_;
  ++line_;
  line_begin_ = offset_;
}

void append_csv_row(std::string& out, const std::vector<std::string>& fields) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (i > 0) out += ',';
    // Readers that trim unquoted fields, as ours does, would lose a blank at either end.
    const std::string& field = fields[i];
    const bool blank_end = !field.empty() && (field.front() == ' ' || field.back() == ' ');
    if (!blank_end && field.find_first_of(",\"\r\n") == std::string::npos) {
      out += field;
      continue;
    }
    out += '"';
    for (const char c : field) {
      out += c;
      if (c == '"') out += '"';
    }
    out += '"';
  }
  out += '\n';
}

}  // namespace tangram::formats
