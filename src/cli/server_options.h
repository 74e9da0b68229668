// The server that a verb asks: where it is, how it is spoken to, and who asks.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "cli/program.h"
#include "client/http_client.h"
#include "host/tls.h"

namespace tangram::cli {

// How a server knows us, and we it. Empty: not asked for.
struct CallerOptions {
  bool tls = false;
  std::string authorities;
  std::string server_name;
  std::string certificate;
  std::string certificate_key;
  std::string token_file;

  // Whatever else is said of TLS means TLS, too.
  bool wants_tls() const;
  // The certificates, read.
  Result<host::TlsMaterial> tls_material() const;
  // The same, ready for use; null where TLS is not wanted.
  Result<std::shared_ptr<const host::TlsContext>> tls_context() const;
  // The key that the server knows us by: in the file, or in $TANGRAM_TOKEN, or empty.
  Result<std::string> key() const;
};

// An admin interface: the metrics port of a server, or its socket.
struct ServerOptions {
  std::string address = "127.0.0.1";
  int port = 8002;
  std::string socket;
  CallerOptions caller;

  Result<client::HttpQuestion> question(std::string method, std::string path, std::string body = "") const;
};

// `prefix` stands in front of the names: "remote-" makes --remote-ca.
void add_caller_options(Program& program, Arguments& verb, CallerOptions& options, const std::string& prefix = "");
void add_server_options(Program& program, Arguments& verb, ServerOptions& options);

// Asks the admin interface. Errors say what to do where nobody answers, and what the server said where it refuses.
Result<std::string> ask_server(const ServerOptions& options, const std::string& method, const std::string& path,
                               const std::string& body = "");

}  // namespace tangram::cli
