// What is in force when a command line does not say it: from the environment, from tangram.yaml, or by default.
//
// A variable of the environment goes before the file, and an option before both. The file is tangram.yaml in the
// working folder, or in the nearest folder above it; TANGRAM_CONFIG names another one, and an empty TANGRAM_CONFIG
// none. Paths in the file are relative to it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace tangram::cli {

struct Configured {
  std::string name;      // "metrics_port", as the file has it.
  std::string variable;  // "TANGRAM_METRICS_PORT".
  std::string option;    // "--port".
  std::string fallback;  // What holds without any; empty: nothing.
  std::string value = {};
  std::string from = "default";  // "TANGRAM_METRICS_PORT", "/home/me/tangram.yaml:3".
  bool set() const { return from != "default"; }
};

struct Configuration {
  std::string file;  // Empty: there is none.
  std::vector<Configured> settings;

  const Configured& find(std::string_view name) const;
};

// Errors: the file cannot be read, or has a problem; a value of the environment is no port.
Result<Configuration> load_configuration();

// Adds what is configured to the arguments of a verb, as the options would be given: those that the verb has
// (`has_option`) and that are not given. `serve` listens where it is told to; for it, nothing is added.
std::vector<std::string> with_configuration(std::vector<std::string> arguments, const Configuration& configuration,
                                            const std::function<bool(const std::string& option)>& has_option);

}  // namespace tangram::cli
