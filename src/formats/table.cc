// Headers of CSV files against descriptions. Columns are found by name once for each file, so reading a row costs one
// index for each field.

#include "formats/table.h"

#include <fmt/format.h>

#include <algorithm>

#include "formats/detail/utf8.h"

namespace tangram::formats {

// Files of other people may have columns that are not needed. In our own files, an unknown column is a mistyped one,
// whose default would otherwise be used silently.
bool Columns::bind(const std::vector<CsvField>& header, bool strict, Problems& problems) {
  columns_.assign(keys_.size(), kAbsent);
  width_ = header.size();
  bool clear = true;
  for (std::size_t i = 0; i < header.size(); ++i) {
    const std::string_view name = text::trim(header[i].text);
    const auto found = std::ranges::find(keys_, name);
    if (found == keys_.end()) {
      if (strict) problems.add(header[i].at(), "column " + detail::unknown_word(name, keys_));
      continue;
    }
    int& column = columns_[static_cast<std::size_t>(found - keys_.begin())];
    // Two columns of one name would leave open which one counts, so no row is read.
    if (column != kAbsent) {
      problems.add(header[i].at(), fmt::format("column {} is given twice", name));
      clear = false;
    }
    column = static_cast<int>(i);
  }
  for (std::size_t field = 0; field < keys_.size(); ++field) {
    if (!required_[field] || columns_[field] != kAbsent) continue;
    problems.add(header.front().at(), fmt::format("column {} is missing", keys_[field]));
    clear = false;
  }
  return clear;
}

int Columns::column_of(std::string_view key) const {
  const auto found = std::ranges::find(keys_, key);
  return found == keys_.end() ? kAbsent : columns_[static_cast<std::size_t>(found - keys_.begin())];
}

// A row of another length has probably lost or gained a comma, and its cells belong to unknown columns.
bool right_width(const std::vector<CsvField>& row, const Columns& columns, Problems& problems) {
  if (row.size() == columns.width()) return true;
  problems.add(row.front().at(), fmt::format("the row has {} field{}, but the header has {}", row.size(),
                                             row.size() == 1 ? "" : "s", columns.width()));
  return false;
}

bool read_header(const Source& source, CsvReader& reader, std::vector<CsvField>& header, Problems& problems) {
  if (const auto bad = first_bad_byte(source.text)) {
    problems.add(*bad, "not UTF-8 text");
    return false;
  }
  // The reader's constructor has reported a text that is too long.
  if (!problems.empty()) return false;
  if (reader.next(header)) return true;
  if (problems.empty()) problems.add({}, "the file is empty; expected a header row");
  return false;
}

}  // namespace tangram::formats
