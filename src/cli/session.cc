// The two streams of a verb: `out` for the answer, `err` for everything else.

#include "cli/session.h"

namespace tangram::cli {

// Text from files and drivers may be invalid UTF-8. `replace` prints a replacement character instead of throwing.
void Session::print_value(const report::Json& value, bool compact) {
  if (format == OutputFormat::yaml) {
    out << report::to_yaml(value);
  } else {
    out << value.dump(compact ? -1 : 2, ' ', false, report::Json::error_handler_t::replace) << '\n';
  }
}

void Session::remark(std::string_view text) {
  if (!quiet && !structured()) out << text;
}

void Session::note(std::string_view line) {
  if (!quiet) err << line << '\n';
}

// `out` is buffered and `err` is not, so flush first: otherwise a warning appears before the lines that it follows.
void Session::warn(std::string_view line) {
  out.flush();
  err << paint(err_terminal, Style::bold, "warning:") << ' ' << line << '\n';
}

ExitCode Session::fail(const Error& error) {
  out.flush();
  // Some messages have several lines and end with one line break already.
  err << error.message << (error.message.ends_with('\n') ? "" : "\n");
  return exit_code_of(error.code);
}

}  // namespace tangram::cli
