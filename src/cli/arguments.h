// What a verb takes: its options and its positional arguments.
//
// A thin cover over CLI11, which only arguments.cc and program.cc include: its headers take seconds to compile, and
// there are many verbs. Each step returns the argument again, so that a description reads as one sentence:
//
//   verb.add_option("--load-s", options->load_s, "Seconds that a model takes to load.")
//       ->type_name("S")
//       ->capture_default_str()
//       ->range(0.0, 1e6);
#pragma once

#include <concepts>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tangram::cli {

class Argument {
 public:
  explicit Argument(CLI::Option* option) : option_(option) {}

  // The placeholder for the value in the help: "FILE".
  Argument* type_name(const std::string& name);
  Argument* required();
  // The value is a list, separated by this character.
  Argument* delimiter(char between);
  Argument* needs(Argument* other);
  Argument* excludes(Argument* other);
  // Options of the same verb by name.
  Argument* excludes(const std::vector<std::string>& others);
  // The help shows the value that the variable has now.
  Argument* capture_default_str();
  template <std::integral Number>
  Argument* range(Number min, Number max) {
    return whole_range(static_cast<std::int64_t>(min), static_cast<std::int64_t>(max));
  }
  template <std::floating_point Number>
  Argument* range(Number min, Number max) {
    return real_range(static_cast<double>(min), static_cast<double>(max));
  }
  // `wrong` returns what is wrong with a value, or an empty text.
  Argument* check(std::function<std::string(const std::string&)> wrong);
  // The heading of the help under which the option is listed. An option without one is accepted but not shown.
  Argument* group(const std::string& name);

  CLI::Option* parsed() const { return option_; }

 private:
  // The limits are inclusive. The templates above select one of these by type, so that CLI11 stays out of this header.
  Argument* whole_range(std::int64_t min, std::int64_t max);
  Argument* real_range(double min, double max);

  CLI::Option* option_;
};

// The arguments of one verb. The variables are filled in when the arguments are parsed and must live until then.
class Arguments {
 public:
  explicit Arguments(CLI::App& app) : app_(&app) {}
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  // "-o,--to" is an option, "FILE" a positional argument. `Value` is one of the types that arguments.cc lists:
  // numbers, text, lists of them, and optional ones.
  template <typename Value>
  Argument* add_option(const std::string& name, Value& value, const std::string& description);
  Argument* add_flag(const std::string& name, bool& value, const std::string& description);
  // `take` is called with the value when it is parsed.
  Argument* add_option_function(const std::string& name, std::function<void(const std::string&)> take,
                                const std::string& description);

  CLI::App& parser() const { return *app_; }

 private:
  // Ensures that the returned pointer is valid for as long as this object.
  Argument* added(CLI::Option* option);

  CLI::App* app_;
  std::deque<Argument> arguments_;
};

}  // namespace tangram::cli
