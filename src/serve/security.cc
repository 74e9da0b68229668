// Warns about a server that others can reach without protection. It only warns: on a trusted network this can be what
// the operator wants.

#include "serve/security.h"

#include <fmt/format.h>

#include <map>

namespace tangram::serve {
namespace {

// Only this machine can connect to such an address. "localhost" does not occur: addresses are given as numbers.
bool is_loopback(const std::string& address) { return address == "::1" || address.starts_with("127."); }

}  // namespace

void warn_of_openness(host::LogWriter& log, const Security& security, const ListenAddresses& addresses) {
  // A client certificate identifies the caller as well as a key does.
  const bool asked = security.access || (security.tls && !security.tls->authorities_file.empty());
  if (asked && security.tls) return;
  // By address, so that one address for both ports gives one warning with both dangers.
  std::map<std::string, std::string> open;  // What may be done there.
  const auto note = [&](const std::string& address, const char* what) {
    if (is_loopback(address)) return;
    std::string& all = open[address];
    all += fmt::format("{}{}", all.empty() ? "" : ", ", what);
  };
  note(addresses.data, "use, load and unload every model");
  note(addresses.admin, "reload and stop the server");
  for (const auto& [address, what] : open) {
    const std::string reason =
        asked ? "can be reached from other machines without TLS: keys and tensors can be read in transit. Give "
                "--tls-certificate and --tls-key"
              : fmt::format(
                    "can be reached from other machines without authentication: anyone can {}. Give --access FILE or "
                    "--tls-client-ca FILE, or listen on 127.0.0.1",
                    what);
    log.write(host::LogLine(host::LogLevel::warning, "open_to_others")
                  .text("address", address)
                  .text("reason", fmt::format("{} {}", address, reason)));
  }
}

}  // namespace tangram::serve
