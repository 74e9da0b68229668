// TLS and access control of a server, and warnings where they are missing.
#pragma once

#include <optional>
#include <string>

#include "formats/access_file.h"
#include "host/log.h"
#include "host/tls.h"

namespace tangram::serve {

// TLS and access control. Whether each is on is fixed at the start; a reload can only change the contents.
struct Security {
  std::optional<host::TlsMaterial> tls;   // Nothing: plain connections.
  std::optional<formats::Access> access;  // Nothing: callers are not authenticated.
};

// Where a server listens.
struct ListenAddresses {
  std::string data;
  std::string admin;
};

// Warns about what anyone who can reach an address from outside can do there: once per address, before it is opened. No
// warning where callers are authenticated and connections are encrypted.
void warn_of_openness(host::LogWriter& log, const Security& security, const ListenAddresses& addresses);

}  // namespace tangram::serve
