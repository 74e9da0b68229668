// The doors between rooms, and what quiet rooms may not touch.
//
// Reads source text, not compiled code: an include that crosses a door the wrong way is a defect even where nothing
// of it is used. Comments and string literals are blanked before words are looked for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tangram::doors {

struct Finding {
  std::string place;    // "src/plan/exact.cc:12"
  std::string message;  // What is wrong and what would be right.

  bool operator==(const Finding&) const = default;
};

// All rooms, in the order of the house.
std::vector<std::string_view> rooms();
bool is_quiet(std::string_view room);
// True if a file of room `from` may include a header of room `to`.
bool may_see(std::string_view from, std::string_view to);

// Checks the text of one file. `path` is relative to the repository: "src/plan/planners/exact.cc".
std::vector<Finding> check_source(std::string_view path, std::string_view text);

}  // namespace tangram::doors
