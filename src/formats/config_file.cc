#include "formats/config_file.h"

#include "formats/describe.h"
#include "formats/detail/shapes.h"
#include "formats/document.h"

namespace tangram::formats {
namespace {

struct ConfigRecord {
  Located<std::optional<std::string>> address;
  Located<std::optional<std::int64_t>> http_port;
  Located<std::optional<std::int64_t>> metrics_port;
  Located<std::optional<std::string>> admin_socket;
  Located<std::optional<std::string>> token_file;
  Located<std::optional<std::string>> ca;
  Located<std::optional<std::string>> server_name;
  Located<std::optional<std::string>> output;
};

template <typename Visitor>
void describe(Visitor& v, ConfigRecord& c) {
  v.about("Config", "What verbs would repeat. Found in the working folder, or in the nearest folder above it.");
  v.field("address", c.address, "The server that verbs ask: a name or an IP address (`--address`).");
  v.field("http_port", c.http_port, {.min = 1, .max = 65535}, "The port where it takes requests (`--http-port`).");
  v.field("metrics_port", c.metrics_port, {.min = 1, .max = 65535}, "Its metrics port (`--port`).");
  v.field("admin_socket", c.admin_socket, "Its admin socket, instead of address and metrics port (`--socket`).");
  v.field("token_file", c.token_file, "The file with the key to send (`--token-file`).");
  v.field("ca", c.ca, "Use TLS and trust these authorities (`--ca`).");
  v.field("server_name", c.server_name, "Use TLS, and expect this name in the certificate (`--server-name`).");
  v.field("output", c.output, "The output format: table, json or yaml (`--output`).");
}

template <typename T>
Setting<T> setting_of(const Located<std::optional<T>>& located) {
  return {located.value, located.value ? located.at.line : 0};
}

}  // namespace

Result<ConfigFile> parse_config(const Source& source) {
  Problems problems(source.name);
  ConfigRecord record;
  if (const auto root = parse_yaml(source, problems)) read_document(*root, problems, record);
  if (!problems.empty()) return problems.error();
  return ConfigFile{setting_of(record.address),      setting_of(record.http_port),  setting_of(record.metrics_port),
                    setting_of(record.admin_socket), setting_of(record.token_file), setting_of(record.ca),
                    setting_of(record.server_name),  setting_of(record.output)};
}

Shape config_shape() { return shape_of<ConfigRecord>(); }

}  // namespace tangram::formats
