// The command line: one program, many verbs.
//
// A verb is one file in verbs/ and one line in verbs/verbs.def:
//
//   void add_greet(Program& program) {
//     const auto name = std::make_shared<std::string>("world");
//     Arguments& verb = program.add_verb({.name = "greet", ...}, [name](Session& session) {
//       session.print("hello " + *name + "\n");
//       return ExitCode::done;
//     });
//     verb.add_option("NAME", *name, "Who is greeted.");
//   }
//
// The common options, help, suggestions, completion and the reference page follow by themselves.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/command_tree.h"
#include "cli/session.h"

namespace tangram::cli {

// CLI11 keeps references to the members that options write to, so a Program can be neither copied nor moved.
class Program {
 public:
  // An error is printed by the program, which then ends with the exit code of its kind.
  using Run = std::function<Result<ExitCode>(Session&)>;

  // With every verb of verbs.def.
  Program();
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // The parser of the new verb, to which it adds its own options. `run` is called after they were parsed.
  Arguments& add_verb(VerbInfo info, Run run);

  // The option takes one of `values` and nothing else; a near miss is suggested.
  Argument* one_of(Argument* option, std::vector<std::string> values);
  // The option takes a whole number within these bounds.
  Argument* whole_number(Argument* option, std::int64_t min, std::int64_t max);
  // Completion offers `values`; the verb checks for itself.
  Argument* offers(Argument* option, std::vector<std::string> values);
  // Completion offers files. An empty name is refused; whether the file is there, the verb sees.
  Argument* offers_files(Argument* option);

  // Everything behind `--` is given to `rest` as it is, for a verb that starts another program.
  void takes_rest(const std::string& verb, std::vector<std::string>& rest);

  // Does what `arguments` (without the program's name) ask for. All text goes to `session`, whose form and colour
  // follow from the arguments and the environment. Never throws for wrong arguments.
  ExitCode run(std::vector<std::string> arguments, Session& session);

  CommandTree tree() const;

 private:
  struct Verb {
    VerbInfo info;
    std::unique_ptr<Arguments> arguments;
    Run run;
  };
  struct Hint {
    std::vector<std::string> values;
    bool files = false;
  };
  struct Settings {
    std::string output = "table";
    bool quiet = false;
    bool no_color = false;
    bool version = false;
  };

  // Adds --output, --quiet and --no-color, as far as the verb has them. Requires that `arguments` lives as long as
  // this.
  void add_common_options(Arguments& arguments, const VerbInfo& info);
  // Moves what follows `--` to the verb that takes it, if it is the one that is named.
  void take_rest(std::vector<std::string>& arguments);
  // An option that the named verb does not have, as a message; nothing: all are known, as far as can be seen.
  std::optional<std::string> unknown_option(const std::vector<std::string>& arguments) const;
  // Adds what the environment and tangram.yaml say to the arguments. Errors: tangram.yaml is wrong.
  Result<Nothing> add_configured(std::vector<std::string>& arguments) const;
  // Settings of the environment, which the arguments may override.
  Result<Settings> settings_from_environment() const;
  // Requires a parse. Ensures that `session` has the form, quietness and colour that settings_ say.
  void apply_settings(Session& session) const;
  // Null if there is no such verb.
  const Verb* find_verb(const std::string& name) const;
  // The verb of the last parse, successful or not; null if there was none.
  const Verb* parsed_verb() const;
  // Requires a successful parse. Prints the error of the verb, if it has one.
  ExitCode run_parsed(Session& session);
  // Prints why the arguments are wrong. `extras`: the parser could not place an argument.
  ExitCode refuse(bool extras, const std::string& message, Session& session) const;
  // Requires a parse that left arguments over.
  std::string explain_extras() const;
  // Help for the parsed verb, or for the program.
  ExitCode help(Session& session) const;
  // Reads options back from the parser. Hidden options are left out.
  VerbTree describe(const Verb& verb) const;
  OptionInfo describe(const CLI::Option& option) const;

  std::unique_ptr<CLI::App> app_;
  std::unique_ptr<Arguments> arguments_;  // Those before a verb.
  std::vector<Verb> verbs_;
  std::map<const CLI::Option*, Hint> hints_;
  std::map<std::string, std::vector<std::string>*> rests_;  // By verb.
  Settings settings_;
};

}  // namespace tangram::cli
