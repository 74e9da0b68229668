#include "cli/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/check.h"
#include "base/text.h"
#include "formats/config_file.h"
#include "host/files.h"

namespace tangram::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kConfigFileMax = 1 << 16;

std::vector<Configured> all_settings() {
  return {{.name = "address", .variable = "TANGRAM_ADDRESS", .option = "--address", .fallback = "127.0.0.1"},
          {.name = "http_port", .variable = "TANGRAM_HTTP_PORT", .option = "--http-port", .fallback = "8000"},
          {.name = "metrics_port", .variable = "TANGRAM_METRICS_PORT", .option = "--port", .fallback = "8002"},
          {.name = "admin_socket", .variable = "TANGRAM_ADMIN_SOCKET", .option = "--socket", .fallback = ""},
          {.name = "token_file", .variable = "TANGRAM_TOKEN_FILE", .option = "--token-file", .fallback = ""},
          {.name = "ca", .variable = "TANGRAM_CA", .option = "--ca", .fallback = ""},
          {.name = "server_name", .variable = "TANGRAM_SERVER_NAME", .option = "--server-name", .fallback = ""},
          // The program itself reads TANGRAM_OUTPUT; here it is shown, and taken from the file.
          {.name = "output", .variable = "TANGRAM_OUTPUT", .option = "--output", .fallback = "table"}};
}

// The file that is meant. Empty: there is none.
std::string find_config_file() {
  if (const char* named = std::getenv("TANGRAM_CONFIG")) return named;
  std::error_code error;
  for (fs::path folder = fs::current_path(error); !error; folder = folder.parent_path()) {
    const fs::path file = folder / "tangram.yaml";
    if (fs::is_regular_file(file, error)) return file.string();
    if (folder == folder.root_path()) break;
  }
  return "";
}

void take(std::vector<Configured>& settings, const std::string& file, std::string_view name, int line,
          std::optional<std::string> value) {
  if (!value) return;
  const auto found = std::ranges::find(settings, name, &Configured::name);
  found->value = std::move(*value);
  found->from = fmt::format("{}:{}", file, line);
}

std::optional<std::string> as_text(const std::optional<std::int64_t>& number) {
  return number ? std::optional(fmt::format("{}", *number)) : std::nullopt;
}

// A path of the file, from its folder.
std::optional<std::string> beside(const std::string& file, const std::optional<std::string>& path) {
  if (!path || path->empty()) return path;
  return (fs::path(file).parent_path() / *path).lexically_normal().string();
}

Result<Nothing> take_file(const std::string& path, std::vector<Configured>& settings) {
  TANGRAM_TRY(auto content, host::read_file(path, kConfigFileMax));
  TANGRAM_TRY(const auto file, formats::parse_config({path, std::move(content)}));
  take(settings, path, "address", file.address.line, file.address.value);
  take(settings, path, "http_port", file.http_port.line, as_text(file.http_port.value));
  take(settings, path, "metrics_port", file.metrics_port.line, as_text(file.metrics_port.value));
  take(settings, path, "admin_socket", file.admin_socket.line, beside(path, file.admin_socket.value));
  take(settings, path, "token_file", file.token_file.line, beside(path, file.token_file.value));
  take(settings, path, "ca", file.ca.line, beside(path, file.ca.value));
  take(settings, path, "server_name", file.server_name.line, file.server_name.value);
  take(settings, path, "output", file.output.line, file.output.value);
  return Nothing{};
}

bool is_given(const std::vector<std::string>& arguments, const std::string& option) {
  return std::ranges::any_of(
      arguments, [&](const std::string& argument) { return argument == option || argument.starts_with(option + "="); });
}

}  // namespace

const Configured& Configuration::find(std::string_view name) const {
  const auto found = std::ranges::find(settings, name, &Configured::name);
  TANGRAM_CHECK(found != settings.end(), "the setting exists");
  return *found;
}

Result<Configuration> load_configuration() {
  Configuration configuration{find_config_file(), all_settings()};
  if (!configuration.file.empty()) TANGRAM_RETURN_IF_ERROR(take_file(configuration.file, configuration.settings));
  for (auto& setting : configuration.settings) {
    const char* value = std::getenv(setting.variable.c_str());
    if (value == nullptr || *value == '\0') continue;
    if (setting.name.ends_with("_port")) {
      const auto number = text::parse_integer(value);
      if (!number || *number < 1 || *number > 65535) {
        return Error{ErrorCode::invalid,
                     fmt::format("{}: expected a whole number from 1 to 65535, read \"{}\"", setting.variable, value)};
      }
    }
    setting.value = value;
    setting.from = setting.variable;
  }
  for (auto& setting : configuration.settings) {
    if (!setting.set()) setting.value = setting.fallback;
  }
  return configuration;
}

std::vector<std::string> with_configuration(std::vector<std::string> arguments, const Configuration& configuration,
                                            const std::function<bool(const std::string& option)>& has_option) {
  if (arguments.empty() || arguments.front() == "serve") return arguments;
  const bool names_place = is_given(arguments, "--address") || is_given(arguments, "--port");
  for (const auto& setting : configuration.settings) {
    if (!setting.set() || setting.value.empty() || is_given(arguments, setting.option)) continue;
    // Whoever names a place on the command line does not mean the socket of the file.
    if (setting.name == "admin_socket" && names_place) continue;
    // TLS and a key belong to the server of the file, and not to another one that is named.
    const bool of_server = setting.name == "token_file" || setting.name == "ca" || setting.name == "server_name";
    if (of_server && is_given(arguments, "--address")) continue;
    if (setting.name == "output" && setting.from == setting.variable) continue;
    if (has_option(setting.option)) arguments.push_back(fmt::format("{}={}", setting.option, setting.value));
  }
  return arguments;
}

}  // namespace tangram::cli
