// Who a gateway or a node is: a key with a certificate that it made itself, known by its fingerprint.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "host/tls.h"

namespace tangram::node {

struct Identity {
  host::TlsMaterial material;
  std::string fingerprint;  // 64 hexadecimal digits.
};

// The identity in `path`, which is made if there is none and then only this user may read. Errors: the file cannot be
// read or written, or holds something else.
Result<Identity> open_identity(const std::string& path, const std::string& name);
// One that lasts as long as this process.
Identity make_identity(const std::string& name);

// The folder in which a gateway keeps its identity, its join tokens and its nodes: `wanted`, else "nodes" in the folder
// of --state of the other verbs ($TANGRAM_STATE, /var/lib/tangram, $XDG_STATE_HOME/tangram, ~/.local/state/tangram).
std::string nodes_folder(const std::string& wanted);
// Makes the folder, which only this user may read.
Result<Nothing> make_private_folder(const std::string& folder);

}  // namespace tangram::node
