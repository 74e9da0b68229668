// Many nodes in one process, for bench/macro/nodes: each joins a gateway over its own TLS connections and offers emulated
// slices, as a `tangram node` would.
//
//   node_fleet --join 127.0.0.1:8003 --token-file FILE --nodes 200 --slices 7
//
// Prints one line of JSON when all have joined, and another when every slice that was asked for is loaded. Ends with
// SIGTERM.
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/text.h"
#include "host/event_loop.h"
#include "host/files.h"
#include "host/log.h"
#include "node/node.h"
#include "node/offers.h"
#include "node/tokens.h"

namespace {

volatile std::sig_atomic_t ended = 0;
void on_end(int) { ended = 1; }

[[noreturn]] void usage(const char* why) {
  std::fprintf(stderr, "node_fleet: %s\n", why);
  std::exit(2);
}

void print(const std::string& line) {
  std::fputs(line.c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** words) {
  using namespace tangram;
  std::string join;
  std::string token_file;
  int nodes = 200;
  int slices = 7;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string name = words[i];
    const std::string value = words[i + 1];
    if (name == "--join") join = value;
    else if (name == "--token-file") token_file = value;
    else if (name == "--nodes") nodes = std::atoi(value.c_str());
    else if (name == "--slices") slices = std::atoi(value.c_str());
    else usage("expected --join, --token-file, --nodes or --slices");
  }
  const auto gateway = node::parse_gateway(join);
  const auto text = host::read_file(token_file);
  if (!gateway || !text || nodes < 1 || slices < 1) usage("expected --join HOST:PORT and --token-file FILE");
  const std::string token(text::trim(*text));
  const auto parts = node::parse_token(token);
  if (!parts) usage("the file has no token");
  std::signal(SIGTERM, on_end);
  std::signal(SIGINT, on_end);
  host::LogWriter log(STDERR_FILENO);
  host::LiveClock clock;
  host::EventLoop loop;
  std::vector<std::unique_ptr<node::Node>> fleet;
  for (int i = 0; i < nodes; ++i) {
    node::NodeConfig config;
    config.name = fmt::format("node-{}", i);
    config.version = "0.1.0";
    config.gateways = {*gateway};
    config.identity = node::make_identity(config.name);
    config.token = token;
    config.gateway_fingerprint = parts->gateway;
    config.boards = {*node::parse_slices(fmt::format("{}x1g.10gb", slices))};
    fleet.push_back(std::make_unique<node::Node>(std::move(config), loop, clock, log));
  }
  // Keys are made before the clock begins.
  const TimePoint begin = clock.now();
  bool told_joined = false;
  bool told_hosted = false;
  while (ended == 0) {
    TimePoint due = clock.now() + std::chrono::milliseconds(100);
    for (const auto& one : fleet) due = std::min(due, one->next_due());
    loop.wait(clock, due);
    std::size_t joined = 0;
    std::size_t hosted = 0;
    for (const auto& one : fleet) {
      one->work(clock.now());
      joined += one->joined() ? 1 : 0;
      hosted += one->slices_hosted();
    }
    if (!told_joined && joined == fleet.size()) {
      told_joined = true;
      print(fmt::format("{{\"joined\":{},\"seconds\":{:.3f}}}\n", joined, to_seconds(clock.now() - begin)));
    }
    if (!told_hosted && hosted == fleet.size() * static_cast<std::size_t>(slices)) {
      told_hosted = true;
      print(fmt::format("{{\"hosted\":{},\"seconds\":{:.3f}}}\n", hosted, to_seconds(clock.now() - begin)));
    }
  }
  return 0;
}
