// A list of problems and its text. The text is bounded as well: at most kProblemsShownMax lines, then the number of
// others.

#include "formats/problems.h"

#include <fmt/format.h>

#include <algorithm>

namespace tangram::formats {

std::string locate(const std::string& name, Position at, const std::string& text) {
  if (at.line == 0) return fmt::format("{}: {}", name, text);
  if (at.column == 0) return fmt::format("{}:{}: {}", name, at.line, text);
  return fmt::format("{}:{}:{}: {}", name, at.line, at.column, text);
}

void Problems::add(Position at, std::string text) { keep(at, locate(name_, at, text)); }

void Problems::add_complete(Position at, std::string message) { keep(at, std::move(message)); }

void Problems::keep(Position at, std::string message) {
  // All are counted but only some kept, so that a file of a million wrong rows costs bounded memory.
  ++count_;
  if (kept_.size() < kProblemsKeptMax) kept_.push_back({at, std::move(message)});
}

Error Problems::error() const {
  TANGRAM_CHECK(!empty(), "an error has at least one problem");
  std::vector<Problem> sorted = kept_;
  // Checks between fields run after the fields are read, so problems do not arrive in the order of the file.
  std::ranges::stable_sort(sorted, {}, &Problem::at);
  const std::size_t shown = std::min(sorted.size(), kProblemsShownMax);
  std::string message;
  for (std::size_t i = 0; i < shown; ++i) {
    if (i > 0) message += '\n';
    message += sorted[i].message;
  }
  if (count_ > shown) message += fmt::format("\n{}: and {} more", name_, count_ - shown);
  return {ErrorCode::invalid, std::move(message)};
}

}  // namespace tangram::formats
