#include "cli/program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/text.h"
#include "cli/help.h"
#include "cli/verbs/verbs.h"

namespace tangram::cli {
namespace {

constexpr const char* kCommonGroup = "Common options";
const std::vector<std::string> kFormats{"table", "json", "yaml"};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string not_one_of(const std::string& value, const std::vector<std::string>& values) {
  const auto near = text::nearest(value, values);
  return fmt::format("\"{}\" is not one of {}{}", value, fmt::join(values, ", "),
                     near ? fmt::format("; did you mean {}?", *near) : "");
}

// Every spelling of every option of `app`.
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
  // At most one: after a verb, its name is no longer special, so a file may be called "demo".
  app_->require_subcommand(0, 1);
  add_common_options(*arguments_, {});
  for (const auto add : all_verbs()) add(*this);
}

Program::~Program() = default;

Arguments& Program::add_verb(VerbInfo info, Run run) {
  CLI::App* app = app_->add_subcommand(info.name, info.summary);
  app->set_help_flag("-h,--help", "Print this help and exit.")->group(kCommonGroup);
  verbs_.push_back({std::move(info), std::make_unique<Arguments>(*app), std::move(run)});
  add_common_options(*verbs_.back().arguments, verbs_.back().info);
  return *verbs_.back().arguments;
}

void Program::add_common_options(Arguments& arguments, const VerbInfo& info) {
  // An option without a group is taken but not shown: scripts may pass --output to every verb alike.
  if (!info.output_is_file) {
    one_of(arguments.add_option("--output", settings_.output, "The form of the answer.")->type_name("FORMAT"), kFormats)
        ->group(info.text_only ? "" : kCommonGroup);
  }
  arguments.add_flag("--quiet", settings_.quiet, "Print the answer and errors, and nothing else.")->group(kCommonGroup);
  arguments.add_flag("--no-color", settings_.no_color, "Print without colour, as where the output is not a terminal.")
      ->group(kCommonGroup);
}

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

Argument* Program::whole_number(Argument* option, std::int64_t min, std::int64_t max) {
  const auto check = [min, max](const std::string& value) {
    const auto number = text::parse_integer(value);
    if (number && *number >= min && *number <= max) return std::string();
    return fmt::format("expected a whole number from {} to {}, read \"{}\"", min, max, value);
  };
  return option->check(check);
}

Argument* Program::offers_files(Argument* option) {
  const auto check = [](const std::string& value) {
    return value.empty() ? "expected the name of a file, read an empty one" : "";
  };
  option->check(check);
  hints_[option->parsed()].files = true;
  return option;
}

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

const Program::Verb* Program::parsed_verb() const {
  const auto parsed = app_->get_subcommands();
  return parsed.empty() ? nullptr : find_verb(parsed.front()->get_name());
}

namespace {

// The parser takes "nan" for a number that lies in every range, and wraps a negative seed around: both are refused
// before it sees them.
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

ExitCode Program::run(std::vector<std::string> arguments, Session& session) {
  const auto settings = settings_from_environment();
  if (!settings) return session.fail(settings.error());
  settings_ = *settings;
  if (const auto wrong = unusable_number(arguments)) return session.fail({ErrorCode::invalid, *wrong});
  std::ranges::reverse(arguments);  // The parser takes them from the back.
  try {
    app_->parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    apply_settings(session);
    return help(session);
  } catch (const CLI::ParseError& error) {
    return refuse(dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr, error.what(), session);
  }
  apply_settings(session);
  return run_parsed(session);
}

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

// What the parser could not place is a verb or an option that does not exist.
std::string Program::explain_extras() const {
  const auto extras = app_->remaining(true);
  const Verb* verb = parsed_verb();
  if (extras.empty()) return "these arguments make no sense together";
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

ExitCode Program::refuse(bool extras, const std::string& message, Session& session) const {
  const Verb* verb = parsed_verb();
  const std::string name = verb == nullptr ? "tangram" : "tangram " + verb->info.name;
  session.err << name << ": " << (extras ? explain_extras() : message) << "\n"
              << "See " << name << " --help.\n";
  return ExitCode::wrong_input;
}

OptionInfo Program::describe(const CLI::Option& option) const {
  OptionInfo info;
  for (const auto& name : option.get_snames()) info.names.push_back("-" + name);
  for (const auto& name : option.get_lnames()) info.names.push_back("--" + name);
  const bool takes_value = option.get_items_expected_max() > 0;
  if (takes_value) info.placeholder = info.positional() ? option.get_name(true) : option.get_type_name();
  // The parser appends what its checks call themselves: "N:INT in [1 - 1024]".
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
    if (!option->get_group().empty()) tree.options.push_back(describe(*option));
  }
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
