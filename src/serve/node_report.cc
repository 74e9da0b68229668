#include "serve/node_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "serve/tally.h"

namespace tangram::serve {
namespace {

using NodeJson = nlohmann::ordered_json;

NodeJson node_json(const NodeReport& node) {
  NodeJson slices = NodeJson::array();
  for (const auto& slice : node.slices) {
    slices.push_back({{"id", slice.id},
                      {"profile", slice.mig_profile},
                      {"service", fmt::format("{}", fmt::join(slice.services, ","))},
                      {"state", slice.state},
                      {"network_us", slice.network_us}});
  }
  return {{"name", node.name},     {"address", node.address}, {"state", node.state}, {"version", node.version},
          {"rtt_us", node.rtt_us}, {"since_s", node.since_s}, {"joins", node.joins}, {"losses", node.losses},
          {"slices", slices}};
}

std::size_t in_state(const std::vector<NodeReport>& nodes, std::string_view state) {
  return static_cast<std::size_t>(std::ranges::count(nodes, state, &NodeReport::state));
}

}  // namespace

std::string nodes_report(const NodeHub& hub) {
  NodeJson nodes = NodeJson::array();
  for (const auto& node : hub.report()) nodes.push_back(node_json(node));
  return NodeJson{{"port", hub.port()}, {"fingerprint", hub.fingerprint()}, {"nodes", nodes}}.dump();
}

std::string nodes_summary(const NodeHub& hub) {
  const auto nodes = hub.report();
  return NodeJson{{"joined", in_state(nodes, "joined")},
                  {"leaving", in_state(nodes, "leaving")},
                  {"lost", in_state(nodes, "lost")},
                  {"slices_waiting", hub.slices_waiting()}}
      .dump();
}

std::string nodes_metrics(const NodeHub& hub) {
  PrometheusText out;
  const auto nodes = hub.report();
  const auto& counts = hub.counts();
  const auto& door = hub.door_counts();
  const auto one = [&](const char* name, const char* type, const char* help, auto value) {
    out.family(name, type, help);
    out.sample(name, "", value);
  };
  out.family("tangram_node_up", "gauge", "1 for a node that has joined, 0 for one that leaves or is lost.");
  for (const auto& node : nodes) {
    out.sample("tangram_node_up", label("node", node.name), node.state == "joined" ? 1.0 : 0.0);
  }
  out.family("tangram_node_rtt_seconds", "gauge", "How long a ping to the node takes, smoothed.");
  for (const auto& node : nodes) out.sample("tangram_node_rtt_seconds", label("node", node.name), node.rtt_us * 1e-6);
  out.family("tangram_node_slices", "gauge", "Slices of the plan that are on the node.");
  for (const auto& node : nodes) {
    out.sample("tangram_node_slices", label("node", node.name), static_cast<double>(node.slices.size()));
  }
  out.family("tangram_node_losses_total", "counter", "Times that the node was lost.");
  for (const auto& node : nodes) out.sample("tangram_node_losses_total", label("node", node.name), node.losses);
  out.family("tangram_node_slice_network_seconds", "gauge",
             "Time of a batch beyond its run on the slice, smoothed: the network, and the node's own part.");
  for (const auto& node : nodes) {
    for (const auto& slice : node.slices) {
      out.sample("tangram_node_slice_network_seconds", label("node", node.name) + ',' + label("slice", slice.id),
                 slice.network_us * 1e-6);
    }
  }
  one("tangram_node_slices_waiting", "gauge", "Slices of the plan for which no node has room.",
      static_cast<double>(hub.slices_waiting()));
  one("tangram_node_joins_total", "counter", "Joins of all nodes.", counts.joins);
  one("tangram_node_batches_total", "counter", "Batches that nodes have answered.", counts.batches);
  one("tangram_node_late_messages_total", "counter", "Messages of an earlier life of a slice, which were dropped.",
      counts.late_answers);
  one("tangram_node_model_mismatches_total", "counter", "Loads whose weights were not those of the other nodes.",
      counts.model_mismatches);
  out.family("tangram_node_connections_total", "counter", "Connections at the port for nodes, by what became of them.");
  const auto connections = [&](std::string_view what, const std::atomic<std::uint64_t>& count) {
    out.sample("tangram_node_connections_total", label("result", what), count.load(std::memory_order_relaxed));
  };
  connections("accepted", door.accepted);
  connections("refused", door.refused);
  connections("failed", door.failed);
  connections("denied", door.denied);
  return out.take();
}

}  // namespace tangram::serve
