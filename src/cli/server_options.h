// The server that a verb asks: its address, TLS, and the caller's credentials.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "cli/program.h"
#include "client/http_client.h"
#include "host/tls.h"

namespace tangram::cli {

// The caller's credentials and the TLS options. An empty text means that the option was not given.
struct CallerOptions {
  bool tls = false;
  std::string authorities;
  std::string server_name;
  std::string certificate;
  std::string certificate_key;
  std::string token_file;

  // True if any TLS option was given, not only --tls.
  bool wants_tls() const;
  // The contents of the certificate files.
  Result<host::TlsMaterial> tls_material() const;
  // The same, ready for use; null where TLS is not wanted.
  Result<std::shared_ptr<const host::TlsContext>> tls_context() const;
  // The caller's key: from the token file, else from $TANGRAM_TOKEN, else empty.
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

// `prefix` comes before the names: "remote-" makes --remote-ca.
void add_caller_options(Program& program, Arguments& verb, CallerOptions& options, const std::string& prefix = "");
void add_server_options(Program& program, Arguments& verb, ServerOptions& options);

// Asks the admin interface. Errors say what to do if there is no server, and what the server said if it rejected the
// question. `status`, where given, gets the HTTP status of the answer; 0: there was none.
Result<std::string> ask_server(const ServerOptions& options, const std::string& method, const std::string& path,
                               const std::string& body = "", int* status = nullptr);

}  // namespace tangram::cli
