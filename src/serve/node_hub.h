// All nodes of a gateway, and which of its slices is on which of them.
//
// A plan's slice goes to a node by kind and place. A node offers slices that exist (a MIG device each), which take any
// slice of their MigProfile, or whole devices (cores of a host, emulated boards), which take every slice of one device
// of the plan. Where the node names a device, it is that one. Once placed, a slice stays with its node; one that is
// lost for longer than `rebind_after` goes to another that has room.
//
// Everything but arrivals happens on the thread of the world.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "engines/executor.h"
#include "engines/executor_links.h"
#include "host/mutex.h"
#include "node/digests.h"
#include "node/node_protocol.h"
#include "node/tokens.h"
#include "node/wire.h"
#include "serve/node_door.h"
#include "serve/node_link.h"

namespace tangram::serve {

struct NodeHubConfig {
  NodeDoorConfig door;
  Duration ping_every = std::chrono::milliseconds(500);
  Duration silence_max = std::chrono::seconds(2);    // A node that says nothing for so long is lost.
  Duration rebind_after = std::chrono::seconds(3);   // A lost node's slices may go elsewhere.
  Duration load_max = std::chrono::minutes(5);
  Duration first_wait = std::chrono::seconds(10);    // For nodes, before the gateway serves with those that are there.
  std::size_t nodes_max = 1'024;
  std::string models;  // Of the gateway, whose weights are the right ones; empty: those of the first node.
};

struct NodeSliceReport {
  std::string id;
  std::string mig_profile;
  std::vector<std::string> services;
  std::string state;
  double network_us = 0;
};
struct NodeReport {
  std::string name;
  std::string address;
  std::string state;  // joined, leaving, lost
  std::string version;
  double rtt_us = 0;
  double since_s = 0;  // In this state.
  std::uint64_t joins = 0;
  std::uint64_t losses = 0;
  std::size_t slices_offered = 0;
  std::vector<NodeSliceReport> slices;
};

// How many messages and events, for metrics.
struct NodeHubCounts {
  std::uint64_t joins = 0;
  std::uint64_t losses = 0;
  std::uint64_t name_conflicts = 0;
  std::uint64_t batches = 0;
  std::uint64_t late_answers = 0;  // Of an earlier life, dropped.
  std::uint64_t model_mismatches = 0;
};

class NodeHub {
 public:
  // A device of the plan has lost its node, or has one again. Called on the thread of the world, outside of step().
  using DeviceTold = std::function<void(const std::string& device, bool works, const std::string& why)>;

  NodeHub(NodeHubConfig config, host::EventLoop& loop, const host::LiveClock& clock, host::LogWriter& log);
  ~NodeHub();

  Result<Nothing> open();
  std::uint16_t port() const { return door_.port(); }
  const std::string& fingerprint() const { return door_.fingerprint(); }
  void set_device_told(DeviceTold told) { told_ = std::move(told); }

  std::unique_ptr<engines::Executor> make(SliceId slice, NodeSliceConfig config, engines::ExecutorEvents& events);
  void work(TimePoint now);
  TimePoint next_due() const;
  // The first nodes have had their time, or slices are served already: those that are missing are not waited for.
  bool first_wait_over(TimePoint now) const { return now >= first_wait_until_; }

  std::vector<NodeReport> report() const;
  // Slices of the plan that want a node and have none.
  std::size_t slices_waiting() const;
  // The node of the slice with this title; empty: it has none.
  std::string node_of(const std::string& title) const;
  const NodeHubCounts& counts() const { return counts_; }
  const NodeDoorCounts& door_counts() const { return door_.counts(); }

  // For links.
  void add(NodeLink* link);
  void remove(NodeLink* link);
  // Looks for a node for a link that wants one, and has it load.
  void place(NodeLink* link);
  // Sends to the node of the link, if it has joined. False: it has not.
  bool tell(const NodeLink& link, const node::ControlMessage& message);
  std::uint64_t next_life() { return ++life_; }
  // The gateway ends: nodes keep what they have loaded, for its next start or its standby.
  void keep_loaded() { keeps_ = true; }
  bool keeps_loaded() const { return keeps_; }
  // Why a slice with these weights must not serve; empty: they are those of all others.
  std::string why_other_models(const NodeLink& link, const std::map<std::string, std::string>& digests);
  void count_batch() { ++counts_.batches; }
  void count_late() { ++counts_.late_answers; }
  Duration load_max() const { return config_.load_max; }

 private:
  struct Peer;
  class PeerWire;

  void take_arrivals();
  void take_join(NodeArrival arrival, const node::JoinRequest& join);
  void take_slice(NodeArrival arrival, const node::SliceJoin& join);
  bool forget_one_lost();
  void lose(Peer& peer, const std::string& why);
  void on_control(Peer& peer);
  bool handle(Peer& peer, const node::ControlMessage& message);
  void ping(Peer& peer, TimePoint now);
  // Ends the nodes whose right to be here was taken back.
  void check_rights();
  // Where on the node the link can be; nothing: nowhere.
  std::optional<NodeSpot> find_spot(const NodeLink& link, const Peer& peer) const;
  // Whether the link may leave the spot that it has.
  bool may_leave(const NodeLink& link, TimePoint now) const;
  void bind(NodeLink* link, const NodeSpot& spot);
  void unbind(NodeLink* link);
  // Places every link that wants a node, on this one or, where it is null, on any.
  void place_all(Peer* peer);
  Peer* find(const std::string& name) const;
  void tell_devices(const Peer& peer, bool works, const std::string& why);
  void log(host::LogLevel level, std::string_view event, const Peer& peer, const std::string& reason) const;

  NodeHubConfig config_;
  engines::LinkContext context_;
  engines::LinkList<NodeLink> links_;
  std::map<std::string, NodeLink*> by_title_;
  std::map<std::string, int> devices_;  // Of the links: how many each has.
  std::map<std::string, std::unique_ptr<Peer>> peers_;  // By name; those that are lost, too.
  std::vector<std::unique_ptr<node::Wire>> old_wires_;
  struct Owner {
    std::string what;  // A device, or a cut.
    int links = 0;
  };
  std::map<NodeSpot, Owner> owners_;  // Of boards that are whole (`offered` empty) and of slices.
  std::map<std::string, NodeSpot> boards_of_;  // The whole board of each device that has one.
  std::set<std::string> down_;  // Devices that were told to be lost.
  std::map<std::string, std::string> digests_;  // Of weights, by name: what the first node or the gateway has.
  std::unique_ptr<node::ModelDigests> own_digests_;
  node::TokenStore tokens_;
  NodeHubCounts counts_;
  DeviceTold told_;
  std::uint64_t life_ = 0;
  bool keeps_ = false;
  TimePoint next_ping_ = kTimeNever;
  TimePoint next_rights_;
  TimePoint rebind_at_ = kTimeNever;
  TimePoint first_wait_until_;

  host::Mutex mutex_;
  std::vector<NodeArrival> arrivals_ GUARDED_BY(mutex_);
  NodeDoor door_;  // Last: its thread ends first.
};

}  // namespace tangram::serve
