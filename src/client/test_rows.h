// Files of rows, cut for tests and for fuzzing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "client/offline_rows.h"

namespace tangram::client::test {

// All rows of `text`, which comes in pieces of `piece` bytes.
inline std::vector<Row> split_rows(RowFormat format, std::string_view text, std::size_t piece,
                                   std::string* problem = nullptr, std::size_t row_bytes_max = kRowBytesMax) {
  RowSplitter splitter(format, row_bytes_max);
  std::vector<Row> rows;
  const auto drain = [&] {
    while (auto row = splitter.next()) rows.push_back(std::move(*row));
  };
  for (std::size_t at = 0; at < text.size(); at += piece) {
    splitter.feed(text.substr(at, piece));
    drain();
  }
  splitter.end();
  drain();
  if (problem != nullptr) *problem = splitter.problem();
  return rows;
}

}  // namespace tangram::client::test
