// What keeps others out of a server, and what to say where nothing does.
#pragma once

#include <optional>
#include <string>

#include "formats/access_file.h"
#include "host/log.h"
#include "host/tls.h"

namespace tangram::serve {

// What keeps others out. Whether there is TLS, and whether callers are asked who they are, stays as it was at the
// start.
struct Security {
  std::optional<host::TlsMaterial> tls;   // Nothing: plain connections.
  std::optional<formats::Access> access;  // Nothing: nobody is asked.
};

// Where a server listens.
struct ListenAddresses {
  std::string data;
  std::string admin;
};

// Warns of what anyone who can reach an address from outside may do there: once per address, before it is open. Says
// nothing where callers are asked who they are and connections are encrypted.
void warn_of_openness(host::LogWriter& log, const Security& security, const ListenAddresses& addresses);

}  // namespace tangram::serve
