// What the nodes of a server are, each with its default.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"

namespace tangram::serve {

// To shake hands and to say what it wants.
inline constexpr Duration kStrangerTime = std::chrono::seconds(5);

struct NodeDoorConfig {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;
  std::string folder;  // Of identity and tokens.
  std::string version;
  bool munge = false;              // Accept credentials of MUNGE, and show one.
  std::vector<uid_t> munge_users;  // Beside our own and root.
  Duration stranger_time = kStrangerTime;
};

struct NodeHubConfig {
  NodeDoorConfig door;
  Duration ping_every = std::chrono::milliseconds(500);
  Duration silence_max = std::chrono::seconds(2);   // A node that says nothing for so long is lost.
  Duration rebind_after = std::chrono::seconds(3);  // A lost node's slices may go elsewhere.
  Duration load_max = std::chrono::minutes(5);
  Duration first_wait = std::chrono::seconds(10);  // For nodes, before the gateway serves with those that are there.
  std::size_t nodes_max = 1'024;
  std::string models;  // Of the gateway, whose weights are the right ones; empty: those of the first node.
};

}  // namespace tangram::serve
