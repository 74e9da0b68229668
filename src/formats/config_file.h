// tangram.yaml: what every command would repeat, such as the address of a server.
#pragma once

#include <optional>
#include <string>

#include "formats/source.h"

namespace tangram::formats {

// One setting. A line of zero: the file does not have it.
template <typename T>
struct Setting {
  std::optional<T> value;
  int line = 0;
};

struct ConfigFile {
  Setting<std::string> address;        // Of the server that verbs ask.
  Setting<std::int64_t> http_port;     // Where it takes requests.
  Setting<std::int64_t> metrics_port;  // Its admin interface.
  Setting<std::string> admin_socket;
  Setting<std::string> token_file;
  Setting<std::string> ca;
  Setting<std::string> server_name;
  Setting<std::string> output;
};

Result<ConfigFile> parse_config(const Source& source);

}  // namespace tangram::formats
