// How verbs reach a running server, and what they say if they do not.
//
// Most errors here are a wrong address, a missing key or a TLS setup that does not match, and the message of the socket
// alone does not help. So every stage that can fail has its own text with the option that corrects it.

#include "cli/server_options.h"

#include <fmt/format.h>

#include <cstdlib>

#include "base/text.h"
#include "host/files.h"
#include "report/yaml.h"

namespace tangram::cli {
namespace {

// Keys and certificates take a few KiB. The limit keeps a wrong path from being read whole.
constexpr std::uint64_t kSmallFileMax = 1 << 20;

// An empty path means that the option was not given, and gives an empty text.
Result<std::string> read_small(const std::string& path) {
  return path.empty() ? Result<std::string>(std::string()) : host::read_file(path, kSmallFileMax);
}

// The server accepted the connection, but TLS failed: the message says what TLS needs to know.
Error no_tls(const Error& error, const ServerOptions& options) {
  return {
      error.code,
      fmt::format(
          "{}\na server listens at {} port {}, but the TLS handshake failed. --ca names the authority that signed "
          "its certificate, and --server-name the name in the certificate. If the server does not use TLS, leave out "
          "--tls, --ca and --server-name",
          error.message, options.address, options.port)};
}

// Nothing accepted the connection: the message says how to start a server, and how to name one elsewhere.
Error no_server(const Error& error, const ServerOptions& options) {
  if (!options.socket.empty()) {
    return {error.code, fmt::format("{}\nno server listens at {}; start one with `tangram serve --admin-socket PATH`",
                                    error.message, options.socket)};
  }
  return {error.code,
          fmt::format(
              "{}\nno server was found at {} port {}. Start one: tangram serve PLAN --services FILE --measurements "
              "FILE\nor name another with --address and --port. The port is the metrics port, which `tangram serve` "
              "prints after \"metrics\"",
              error.message, options.address, options.port)};
}

// The message in the server's answer, {"error": "..."}, or the beginning of a body that is something else.
std::string told(const client::HttpAnswer& answer) {
  const report::Json body = report::Json::parse(answer.body, nullptr, false);
  return body.is_object() && body.contains("error") && body["error"].is_string() ? body["error"].get<std::string>()
                                                                                 : answer.body.substr(0, 200);
}

// The server answered, but not with 200. A 404 means another kind of server, since every Tangram server has these
// paths.
Error refused(const client::HttpQuestion& question, const client::HttpAnswer& answer) {
  const std::string place = question.place();
  switch (answer.status) {
    case 401:
      return {ErrorCode::denied,
              fmt::format(
                  "{}: the server requires a key: {}\npass it with --token-file FILE or in TANGRAM_TOKEN; `tangram key "
                  "make` creates one",
                  place, told(answer))};
    case 403: return {ErrorCode::denied, fmt::format("{}: {}", place, told(answer))};
    case 404:
      return {ErrorCode::unavailable, fmt::format("{}: this is not the metrics port of a Tangram server", place)};
    default:
      return {ErrorCode::unavailable, fmt::format("{}: the server answered with an error: {}", place, told(answer))};
  }
}

}  // namespace

// Any option about TLS means TLS. Otherwise forgetting --tls beside --ca would send the key in clear text.
bool CallerOptions::wants_tls() const {
  return tls || !authorities.empty() || !server_name.empty() || !certificate.empty();
}

Result<host::TlsMaterial> CallerOptions::tls_material() const {
  if (certificate.empty() != certificate_key.empty()) {
    return Error{ErrorCode::invalid, "--certificate and --certificate-key must be given together"};
  }
  TANGRAM_TRY(auto own, read_small(certificate));
  TANGRAM_TRY(auto secret, read_small(certificate_key));
  TANGRAM_TRY(auto trusted, read_small(authorities));
  return host::TlsMaterial{std::move(own), std::move(secret), std::move(trusted),
                           certificate,    certificate_key,   authorities};
}

Result<std::shared_ptr<const host::TlsContext>> CallerOptions::tls_context() const {
  if (!wants_tls()) return std::shared_ptr<const host::TlsContext>();
  TANGRAM_TRY(const auto material, tls_material());
  return host::TlsContext::for_client(material);
}

// Keys come from a file or the environment and never from an argument, which other users can see in the process list.
Result<std::string> CallerOptions::key() const {
  if (token_file.empty()) {
    const char* shown = std::getenv("TANGRAM_TOKEN");
    return std::string(shown == nullptr ? "" : text::trim(shown));
  }
  TANGRAM_TRY(const auto content, read_small(token_file));
  std::string key(text::trim(content));
  // A line break in a key would end the header early. It also catches a file that is no key at all.
  if (key.empty() || key.find_first_of(" \r\n\t") != std::string::npos) {
    return Error{ErrorCode::invalid, token_file + ": expected exactly one key in the file"};
  }
  return key;
}

Result<client::HttpQuestion> ServerOptions::question(std::string method, std::string path, std::string body) const {
  client::HttpQuestion question{.address = address,
                                .port = static_cast<std::uint16_t>(port),
                                .method = std::move(method),
                                .path = std::move(path),
                                .body = std::move(body)};
  TANGRAM_TRY(auto key, caller.key());
  question.key = std::move(key);
  question.socket_path = socket;
  // A Unix socket stays on this machine, so TLS is not used on it.
  if (!socket.empty()) return question;
  TANGRAM_TRY(auto context, caller.tls_context());
  question.tls = std::move(context);
  question.server_name = caller.server_name;
  return question;
}

// With a prefix the same options describe how a server calls other servers; the help then says so.
void add_caller_options(Program& program, Arguments& verb, CallerOptions& options, const std::string& prefix) {
  const bool remote = prefix == "remote-";
  const auto name_of = [&](const char* name) { return fmt::format("--{}{}", prefix, name); };
  const auto help_of = [&](std::string help) {
    if (!prefix.empty()) {
      help = fmt::format("With --{}: {}{}", prefix.substr(0, prefix.size() - 1), text::lower(help.substr(0, 1)),
                         help.substr(1));
    }
    return help;
  };
  const auto file = [&](const char* name, std::string& path, const char* help) {
    program.offers_files(verb.add_option(name_of(name), path, help_of(help))->type_name("FILE"));
  };
  file("token-file", options.token_file,
       remote ? "The key that this server sends to the remote servers."
              : "The key to send to the server. TANGRAM_TOKEN can hold it instead.");
  verb.add_flag(name_of("tls"), options.tls, help_of("Use TLS and trust the authorities of this system."));
  file("ca", options.authorities, "Use TLS and trust these authorities.");
  verb.add_option(name_of("server-name"), options.server_name,
                  help_of("Use TLS, and expect this name in the server's certificate instead of its address."))
      ->type_name("NAME");
  file("certificate", options.certificate, "Use TLS and present this client certificate.");
  file("certificate-key", options.certificate_key, "The private key of the client certificate.");
}

void add_server_options(Program& program, Arguments& verb, ServerOptions& options) {
  verb.add_option("--address", options.address, "The server: a name or an IP address.")->type_name("HOST");
  program.whole_number(verb.add_option("--port", options.port, "The metrics port of the server.")->type_name("N"), 1,
                       65535);
  program.offers_files(
      verb.add_option("--socket", options.socket, "The admin socket of the server, instead of address and port.")
          ->type_name("PATH"));
  add_caller_options(program, verb, options.caller);
}

Result<std::string> ask_server(const ServerOptions& options, const std::string& method, const std::string& path,
                               const std::string& body, int* status) {
  TANGRAM_TRY(const auto question, options.question(method, path, body));
  client::HttpStage reached{};
  auto answer = client::ask_http(question, &reached);
  // The stage decides which advice helps.
  if (!answer && reached == client::HttpStage::connecting) return no_server(answer.error(), options);
  if (!answer) return reached == client::HttpStage::securing ? no_tls(answer.error(), options) : answer.error();
  if (status != nullptr) *status = answer->status;
  if (answer->status != 200) return refused(question, *answer);
  return std::move(answer->body);
}

}  // namespace tangram::cli
