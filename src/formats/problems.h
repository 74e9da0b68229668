// All problems of one input, collected so that one run reports every mistake.
#pragma once

#include <compare>
#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"

namespace tangram::formats {

// A place in a text: lines and columns count from one, columns in bytes. A zero means that nothing finer is known.
struct Position {
  int line = 0;
  int column = 0;

  auto operator<=>(const Position&) const = default;
};

inline constexpr std::size_t kProblemsShownMax = 100;
// Beyond this many, problems are counted and not kept.
inline constexpr std::size_t kProblemsKeptMax = 10'000;

class Problems {
 public:
  // `name` is what messages call the input.
  explicit Problems(std::string name) : name_(std::move(name)) {}

  void add(Position at, std::string text);
  // A problem of another file that this one names at `at`. Its message is complete already.
  void add_complete(Position at, std::string message);

  bool empty() const { return count_ == 0; }
  std::size_t count() const { return count_; }
  const std::string& name() const { return name_; }

  // One line for each problem, in order of their places, at most kProblemsShownMax and then "and N more". There is one.
  Error error() const;

 private:
  struct Problem {
    Position at;
    std::string message;
  };

  void keep(Position at, std::string message);

  std::string name_;
  std::size_t count_ = 0;
  std::vector<Problem> kept_;
};

// "fleet.yaml:12:9: text", with as much of the place as is known.
std::string locate(const std::string& name, Position at, const std::string& text);

}  // namespace tangram::formats
