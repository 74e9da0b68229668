// The command line on top of CLI11: verbs, common options, help, and messages for wrong arguments.
//
// CLI11 parses; this file adds what it does not have. Values are checked with suggestions for near misses, numbers that
// the parser would accept by mistake are rejected first, and the parsed options are read back as a CommandTree, from
// which help, completion and the reference page are made. Settings have three levels: default, environment, arguments.
// The parser writes into settings_ directly, so run() puts the environment there before it parses.

#include "cli/program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/text.h"
#include "cli/config.h"
#include "cli/help.h"
#include "cli/verbs/verbs.h"

namespace tangram::cli {
namespace {

// Also the mark by which describe() recognises common options.
constexpr const char* kCommonGroup = "Common options";
// In the order of OutputFormat: apply_settings() converts an index.
const std::vector<std::string> kFormats{"table", "json", "yaml"};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The message for a value outside a list, with the nearest allowed value as a suggestion.
std::string not_one_of(const std::string& value, const std::vector<std::string>& values) {
  const auto near = text::nearest(value, values);
  return fmt::format("\"{}\" is not one of {}{}", value, fmt::join(values, ", "),
                     near ? fmt::format("; did you mean {}?", *near) : "");
}

// All spellings of all options of `app`, with their dashes.
std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
    for (const auto& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

}  // namespace

Program::Program() : app_(std::make_unique<CLI::App>("", "tangram")), arguments_(std::make_unique<Arguments>(*app_)) {
  app_->set_help_flag("-h,--help", "Print this help and exit.");
  arguments_->add_flag("--version", settings_.version, "Print the version and exit.");
  // At most one verb: after it the names of verbs are ordinary arguments, so a file may be called "demo".
  app_->require_subcommand(0, 1);
  add_common_options(*arguments_, {});
  for (const auto add : all_verbs()) add(*this);
}

Program::~Program() = default;

// The returned reference stays valid while more verbs are added, because the Arguments are held by pointer.
Arguments& Program::add_verb(VerbInfo info, Run run) {
  CLI::App* app = app_->add_subcommand(info.name, info.summary);
  app->set_help_flag("-h,--help", "Print this help and exit.")->group(kCommonGroup);
  verbs_.push_back({std::move(info), std::make_unique<Arguments>(*app), std::move(run)});
  add_common_options(*verbs_.back().arguments, verbs_.back().info);
  return *verbs_.back().arguments;
}

void Program::add_common_options(Arguments& arguments, const VerbInfo& info) {
  // An option without a group is accepted but not shown. A verb with text only still accepts --output, so that scripts
  // can pass it to every verb.
  if (!info.output_is_file) {
    one_of(arguments.add_option("--output", settings_.output, "The output format.")->type_name("FORMAT"), kFormats)
        ->group(info.text_only ? "" : kCommonGroup);
  }
  arguments.add_flag("--quiet", settings_.quiet, "Print only the answer and errors.")->group(kCommonGroup);
  arguments.add_flag("--no-color", settings_.no_color, "Print without colour, as when the output is not a terminal.")
      ->group(kCommonGroup);
}

// The check has its own copy of the values; offers() takes the other one for completion.
Argument* Program::one_of(Argument* option, std::vector<std::string> values) {
  const auto check = [values](const std::string& value) {
    return std::ranges::find(values, value) != values.end() ? "" : not_one_of(value, values);
  };
  option->check(check);
  return offers(option, std::move(values));
}

Argument* Program::offers(Argument* option, std::vector<std::string> values) {
  hints_[option->parsed()].values = std::move(values);
  return option;
}

// Checks the text before it is converted, so that a number too large for the variable gets the same message as one
// outside the limits.
Argument* Program::whole_number(Argument* option, std::int64_t min, std::int64_t max) {
  const auto check = [min, max](const std::string& value) {
    const auto number = text::parse_integer(value);
    if (number && *number >= min && *number <= max) return std::string();
    return fmt::format("expected a whole number from {} to {}, read \"{}\"", min, max, value);
  };
  return option->check(check);
}

// An empty name is most often an unset variable in a script ("$FILE"). Further on it would mean that no file was given.
Argument* Program::offers_files(Argument* option) {
  const auto check = [](const std::string& value) {
    return value.empty() ? "expected a file name, read an empty string" : "";
  };
  option->check(check);
  hints_[option->parsed()].files = true;
  return option;
}

// Wrong values of a variable are errors, just as those of an option. "0" means no, because scripts write
// TANGRAM_QUIET=0.
Result<Program::Settings> Program::settings_from_environment() const {
  Settings settings;
  if (const std::string output = variable("TANGRAM_OUTPUT"); !output.empty()) {
    if (std::ranges::find(kFormats, output) == kFormats.end()) {
      return Error{ErrorCode::invalid, "TANGRAM_OUTPUT: " + not_one_of(output, kFormats)};
    }
    settings.output = output;
  }
  const std::string quiet = variable("TANGRAM_QUIET");
  settings.quiet = !quiet.empty() && quiet != "0";
  return settings;
}

// Requires settings_.output to be one of kFormats, which the check of --output and of the environment ensure.
void Program::apply_settings(Session& session) const {
  const auto format = std::ranges::find(kFormats, settings_.output) - kFormats.begin();
  session.format = static_cast<OutputFormat>(format);
  session.quiet = settings_.quiet;
  if (settings_.no_color) session.terminal.colour = session.err_terminal.colour = false;
}

const Program::Verb* Program::find_verb(const std::string& name) const {
  const auto found = std::ranges::find_if(verbs_, [&](const Verb& verb) { return verb.info.name == name; });
  return found == verbs_.end() ? nullptr : &*found;
}

// The verb of the last parse, or null. It is also known after a failed parse, so errors can name the verb.
const Program::Verb* Program::parsed_verb() const {
  const auto parsed = app_->get_subcommands();
  return parsed.empty() ? nullptr : find_verb(parsed.front()->get_name());
}

namespace {

// Finds a number that the parser would accept by mistake: "nan" passes every range check, and a negative seed wraps
// around to a large one. Works on the raw arguments, before the parser sees them, for both `--name value` and
// `--name=value`.
std::optional<std::string> unusable_number(const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (!argument.starts_with("--")) continue;
    const auto equals = argument.find('=');
    if (equals == std::string::npos && i + 1 == arguments.size()) continue;
    const std::string name = argument.substr(0, equals);
    const std::string value = equals == std::string::npos ? arguments[i + 1] : argument.substr(equals + 1);
    const std::string plain = text::lower(value.starts_with('-') || value.starts_with('+') ? value.substr(1) : value);
    if (plain == "nan") return fmt::format("{}: expected a number, read {}", name, value);
    if (name != "--seed") continue;
    std::uint64_t seed = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), seed);
    if (error != std::errc{} || end != value.data() + value.size()) {
      return fmt::format("--seed: expected a whole number from 0 to 18446744073709551615, read {}", value);
    }
  }
  return std::nullopt;
}

}  // namespace

void Program::takes_rest(const std::string& verb, std::vector<std::string>& rest) { rests_[verb] = &rest; }

// Done before the parser sees them: it would look for their options among ours.
void Program::take_rest(std::vector<std::string>& arguments) {
  const auto dashes = std::ranges::find(arguments, "--");
  for (const auto& [verb, rest] : rests_) {
    if (std::find(arguments.begin(), dashes, verb) == dashes) continue;
    rest->assign(dashes == arguments.end() ? dashes : dashes + 1, arguments.end());
    arguments.erase(dashes, arguments.end());
    return;
  }
}

// An option that the named verb does not have. What may be the value of another option is not looked at, nor what
// follows `--`; the parser judges all other arguments.
std::optional<std::string> Program::unknown_option(const std::vector<std::string>& arguments) const {
  const Verb* verb = arguments.empty() ? nullptr : find_verb(arguments.front());
  if (verb == nullptr) return std::nullopt;
  const CLI::App& parser = verb->arguments->parser();
  // Verbs of verbs have options of their own.
  if (!parser.get_subcommands([](const CLI::App*) { return true; }).empty()) return std::nullopt;
  const std::vector<std::string> known = option_names(parser);
  for (std::size_t i = 1; i < arguments.size() && arguments[i] != "--"; ++i) {
    const std::string& argument = arguments[i];
    if (!argument.starts_with("--") || argument.size() < 4) continue;
    const std::string name = argument.substr(0, argument.find('='));
    if (std::ranges::find(known, name) != known.end()) continue;
    const std::string& before = arguments[i - 1];
    const CLI::Option* option = before.starts_with("-") ? parser.get_option_no_throw(before) : nullptr;
    if (option != nullptr && option->get_items_expected_max() > 0) continue;
    const auto near = text::nearest(name, known);
    return fmt::format("tangram {}: unknown option {}{}\nSee tangram {} --help.", verb->info.name, name,
                       near ? fmt::format("; did you mean {}?", *near) : "", verb->info.name);
  }
  return std::nullopt;
}

Result<Nothing> Program::add_configured(std::vector<std::string>& arguments) const {
  const Verb* verb = arguments.empty() ? nullptr : find_verb(arguments.front());
  // These show or explain the configuration, and must work while it is wrong.
  if (verb == nullptr || verb->info.name == "config" || verb->info.name == "help" || verb->info.name == "version") {
    return Nothing{};
  }
  for (const auto& argument : arguments) {
    if (argument == "--help" || argument == "-h") return Nothing{};
  }
  TANGRAM_TRY(const auto configuration, load_configuration());
  const std::vector<std::string> known = option_names(verb->arguments->parser());
  arguments = with_configuration(std::move(arguments), configuration, [&](const std::string& option) {
    return std::ranges::find(known, option) != known.end();
  });
  return Nothing{};
}

// The only place where exceptions of CLI11 are caught; none leaves this function.
ExitCode Program::run(std::vector<std::string> arguments, Session& session) {
  const auto settings = settings_from_environment();
  if (!settings) return session.fail(settings.error());
  settings_ = *settings;
  take_rest(arguments);
  if (const auto wrong = unusable_number(arguments)) return session.fail({ErrorCode::invalid, *wrong});
  // Before what is missing: a mistyped option is often the reason for it.
  if (const auto unknown = unknown_option(arguments)) return session.fail({ErrorCode::invalid, *unknown});
  if (const auto added = add_configured(arguments); !added) return session.fail(added.error());
  std::ranges::reverse(arguments);  // The parser takes them from the back.
  try {
    app_->parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    // CLI11 looks for --help before it checks what is missing, so users can ask for help with an incomplete command
    // line.
    apply_settings(session);
    return help(session);
  } catch (const CLI::ParseError& error) {
    return refuse(dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr, error.what(), session);
  }
  apply_settings(session);
  return run_parsed(session);
}

// `tangram --version` is the verb `version`, so both print the same. No verb at all prints the help.
ExitCode Program::run_parsed(Session& session) {
  const Verb* verb = settings_.version ? find_verb("version") : parsed_verb();
  if (verb == nullptr) return help(session);
  const auto ended = verb->run(session);
  return ended ? *ended : session.fail(ended.error());
}

ExitCode Program::help(Session& session) const {
  const Verb* verb = parsed_verb();
  session.print(verb == nullptr ? program_help(tree(), session.terminal)
                                : verb_help(describe(*verb), session.terminal));
  return ExitCode::done;
}

// Explains arguments that the parser could not place: an unknown option, an unknown verb, or one argument too many.
std::string Program::explain_extras() const {
  const auto extras = app_->remaining(true);
  const Verb* verb = parsed_verb();
  if (extras.empty()) return "these arguments cannot be combined";
  const std::string& first = extras.front();
  if (first.starts_with("-")) {
    const std::string name = first.substr(0, first.find('='));
    const auto near = text::nearest(name, option_names(verb == nullptr ? *app_ : verb->arguments->parser()));
    return fmt::format("unknown option {}{}", name, near ? fmt::format("; did you mean {}?", *near) : "");
  }
  if (verb != nullptr) return fmt::format("unexpected argument \"{}\"", first);
  std::vector<std::string> names;
  for (const auto& known : verbs_) names.push_back(known.info.name);
  const auto near = text::nearest(first, names);
  return fmt::format("unknown verb \"{}\"{}", first, near ? fmt::format("; did you mean {}?", *near) : "");
}

// CLI11 says only "not expected" for extra arguments, so they get a message with a suggestion; its other messages are
// good enough.
ExitCode Program::refuse(bool extras, const std::string& message, Session& session) const {
  const Verb* verb = parsed_verb();
  const std::string name = verb == nullptr ? "tangram" : "tangram " + verb->info.name;
  session.err << name << ": " << (extras ? explain_extras() : message) << "\n"
              << "See " << name << " --help.\n";
  return ExitCode::wrong_input;
}

// Reads an option back from the parser, so that help and completion always match what is parsed.
OptionInfo Program::describe(const CLI::Option& option) const {
  OptionInfo info;
  for (const auto& name : option.get_snames()) info.names.push_back("-" + name);
  for (const auto& name : option.get_lnames()) info.names.push_back("--" + name);
  const bool takes_value = option.get_items_expected_max() > 0;
  if (takes_value) info.placeholder = info.positional() ? option.get_name(true) : option.get_type_name();
  // CLI11 appends the names of its checks to the type name: "N:INT in [1 - 1024]". Help shows only the part before the
  // colon.
  info.placeholder = info.placeholder.substr(0, info.placeholder.find(':'));
  info.description = option.get_description();
  info.default_text = option.get_default_str();
  info.repeats = option.get_items_expected_max() > 1;
  info.required = option.get_required();
  info.common = option.get_group() == kCommonGroup;
  if (const auto hint = hints_.find(&option); hint != hints_.end()) {
    info.values = hint->second.values;
    info.takes_file = hint->second.files;
  }
  return info;
}

VerbTree Program::describe(const Verb& verb) const {
  VerbTree tree{verb.info, {}};
  for (const CLI::Option* option : verb.arguments->parser().get_options()) {
    // Hidden options have no group.
    if (!option->get_group().empty()) tree.options.push_back(describe(*option));
  }
  // Positional arguments first, then the verb's own options, then the common ones; a stable sort keeps the order in
  // which the verb declared them.
  const auto rank = [](const OptionInfo& option) { return option.positional() ? 0 : option.common ? 2 : 1; };
  std::ranges::stable_sort(tree.options, {}, rank);
  return tree;
}

CommandTree Program::tree() const {
  CommandTree tree;
  for (const CLI::Option* option : app_->get_options()) tree.options.push_back(describe(*option));
  for (const auto& verb : verbs_) tree.verbs.push_back(describe(verb));
  return tree;
}

}  // namespace tangram::cli
