// What a verb may use to answer: where the text goes, in which form, and how much of it.
#pragma once

#include <ostream>
#include <string_view>

#include "cli/exit_code.h"
#include "cli/progress.h"
#include "cli/terminal.h"
#include "report/yaml.h"

namespace tangram::cli {

enum class OutputFormat { table, json, yaml };

struct Session {
  std::ostream& out;
  std::ostream& err;
  Terminal terminal;      // Of `out`.
  Terminal err_terminal;  // Of `err`.
  OutputFormat format = OutputFormat::table;
  bool quiet = false;

  // True where the answer is a value for programs and not text for people.
  bool structured() const { return format != OutputFormat::table; }

  // The answer, as text.
  void print(std::string_view text) { out << text; }
  // The answer, as a value in the chosen form. `compact` puts JSON on one line.
  void print_value(const report::Json& value, bool compact = false);

  // What is pleasant to know but not the answer: to `out` in table form, left out by --quiet and in the other forms.
  void remark(std::string_view text);
  // The same to `err`, in every form.
  void note(std::string_view line);

  // What is allowed and probably not meant, to `err`; not even --quiet leaves it out.
  void warn(std::string_view line);

  // Reports the error, one line or many, and says how the program ends.
  ExitCode fail(const Error& error);

  // A bar on `err`, silent under --quiet.
  Progress progress(std::string label, std::uint64_t total) {
    return Progress(err, err_terminal, {.label = std::move(label), .total = total, .wanted = !quiet});
  }
};

}  // namespace tangram::cli
