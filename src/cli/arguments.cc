// The implementation of Argument and Arguments by CLI11. Only this file and program.cc include its headers.

#include "cli/arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <optional>

#include "base/text.h"

namespace tangram::cli {

Argument* Argument::type_name(const std::string& name) {
  option_->type_name(name);
  return this;
}

Argument* Argument::required() {
  option_->required();
  return this;
}

Argument* Argument::delimiter(char between) {
  option_->delimiter(between);
  return this;
}

Argument* Argument::needs(Argument* other) {
  option_->needs(other->option_);
  return this;
}

Argument* Argument::excludes(Argument* other) {
  option_->excludes(other->option_);
  return this;
}

// By name, for options that are added before this one but whose pointer the verb did not keep.
Argument* Argument::excludes(const std::vector<std::string>& others) {
  for (const std::string& other : others) option_->excludes(other);
  return this;
}

Argument* Argument::capture_default_str() {
  option_->capture_default_str();
  return this;
}

Argument* Argument::whole_range(std::int64_t min, std::int64_t max) {
  option_->check(CLI::Range(min, max));
  return this;
}

// Prints the limits as people write them, "from 0 to 1e+06"; CLI11's own message has six digits after every point. The
// description stays CLI11's, since Program::describe() cuts it off in the same way for both ranges.
Argument* Argument::real_range(double min, double max) {
  option_->check(CLI::Validator(
      [min, max](std::string& value) -> std::string {
        const auto number = text::parse_number(value);
        if (number && *number >= min && *number <= max) return "";
        return fmt::format("expected a number from {:g} to {:g}, found {}", min, max, value);
      },
      CLI::Range(min, max).get_description()));
  return this;
}

// The empty name keeps the check out of the type name in the help.
Argument* Argument::check(std::function<std::string(const std::string&)> wrong) {
  option_->check(CLI::Validator([wrong = std::move(wrong)](std::string& value) { return wrong(value); }, ""));
  return this;
}

Argument* Argument::group(const std::string& name) {
  option_->group(name);
  return this;
}

// A deque keeps addresses valid while it grows, and callers hold these pointers.
Argument* Arguments::added(CLI::Option* option) { return &arguments_.emplace_back(option); }

template <typename Value>
Argument* Arguments::add_option(const std::string& name, Value& value, const std::string& description) {
  return added(app_->add_option(name, value, description));
}

Argument* Arguments::add_flag(const std::string& name, bool& value, const std::string& description) {
  return added(app_->add_flag(name, value, description));
}

Argument* Arguments::add_option_function(const std::string& name, std::function<void(const std::string&)> take,
                                         const std::string& description) {
  return added(app_->add_option_function<std::string>(name, std::move(take), description));
}

// The template is defined here so that verbs need not include CLI11. These are all types that options have; another
// type is a link error until it is added.
#define TANGRAM_ARGUMENT(...) \
  template Argument* Arguments::add_option(const std::string&, __VA_ARGS__&, const std::string&)
TANGRAM_ARGUMENT(std::string);
TANGRAM_ARGUMENT(double);
TANGRAM_ARGUMENT(int);
TANGRAM_ARGUMENT(std::int64_t);
TANGRAM_ARGUMENT(std::uint16_t);
TANGRAM_ARGUMENT(std::uint64_t);
TANGRAM_ARGUMENT(std::optional<std::string>);
TANGRAM_ARGUMENT(std::optional<double>);
TANGRAM_ARGUMENT(std::optional<int>);
TANGRAM_ARGUMENT(std::optional<std::int64_t>);
TANGRAM_ARGUMENT(std::optional<std::uint64_t>);
TANGRAM_ARGUMENT(std::vector<std::string>);
TANGRAM_ARGUMENT(std::vector<double>);
TANGRAM_ARGUMENT(std::vector<std::int64_t>);
#undef TANGRAM_ARGUMENT

}  // namespace tangram::cli
