// The executor of a slice that is on a node.
//
//   cold --restart()--> waiting --a node has it, load sent--> loading --ready and connected--> ready <--start/answer-->
//   running                       any --lost, failed, connection ended--> cold
//
// A restart is answered by one on_restarted(), a batch by one on_done(), on_stopped() or on_lost(), unless another
// restart() comes first. Every load has a life of its own; what belongs to an earlier one is dropped.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/http_answer.h"
#include "engines/executor.h"
#include "engines/executor_links.h"
#include "node/node_protocol.h"
#include "node/wire.h"
#include "worker/worker_protocol.h"

namespace tangram::serve {

class NodeHub;

// What a node is to serve on a slice.
struct NodeSliceConfig {
  std::string title;   // "rack1-0/2g.20gb@4", and "#1" behind it for a second process: names the slice to the node, too.
  std::string device;  // Of the plan.
  std::string type;    // Of the device.
  std::string mig_profile;
  int start = 0;
  int units = 0;         // Of the cut.
  int device_units = 0;  // Of the device.
  int units_per_core = 0;
  int process = 0;
  worker::WorkerSpec spec;  // Without cores and threads, which are the node's to choose.

  // The cut, which all of its processes share.
  std::string cut() const { return device + "/" + mig_profile + "@" + std::to_string(start); }
};

// Where on a node a slice is.
struct NodeSpot {
  std::string node;
  std::size_t board = 0;
  std::string offered;  // Empty: the board is whole.

  auto operator<=>(const NodeSpot&) const = default;
};

class NodeLink final : public engines::Executor, private node::WireOwner {
 public:
  NodeLink(NodeHub& hub, engines::LinkContext context, SliceId slice, NodeSliceConfig config,
           engines::ExecutorEvents& events);
  ~NodeLink() override;

  // Executor.
  Result<engines::BatchMemory*> prepare(const engines::BatchJob& job) override;
  std::optional<Duration> start(const engines::BatchJob& job) override;
  bool stop(BatchId batch, bool must) override;
  bool restart() override;
  bool ready() const override { return state_ == State::ready || state_ == State::running; }
  void unload(ServiceId copy) override { unloaded_.push_back(copy); }
  bool change_models(SliceId slice, std::vector<engines::ModelSpec> models) override;

  // For the hub.
  const NodeSliceConfig& config() const { return config_; }
  SliceId slice() const { return slice_; }
  const std::optional<NodeSpot>& spot() const { return spot_; }
  void set_spot(std::optional<NodeSpot> spot) { spot_ = std::move(spot); }
  // It waits for a node.
  bool wanting() const { return state_ == State::waiting; }
  bool busy() const { return state_ == State::running; }
  std::uint64_t life() const { return life_; }
  std::string_view state() const;
  // The node at its spot has joined: it is told what to load. Requires wanting().
  void load();
  // Messages of the node about this slice; those of another life are dropped.
  void on_message(const node::ControlMessage& message);
  // The node's connection for batches.
  void attach(node::WireParts parts);
  // The node is gone, or leaves: nothing of it counts any more. A leaving one may end the batch that it runs.
  void on_node_lost(const std::string& why);
  void on_node_leaving();
  void work(TimePoint now);
  TimePoint next_due() const { return due_; }
  // The time of a batch beyond its run: the network, and the node's own part.
  Duration network_mean() const { return network_; }
  std::uint64_t batches() const { return batches_; }

 private:
  enum class State : std::uint8_t { cold, waiting, loading, ready, running };

  bool on_open(node::Wire&, const std::string&) override { return true; }  // Known before it was attached.
  void on_bytes(node::Wire& wire) override;
  void on_closed(node::Wire& wire, const std::string& why) override;

  const engines::ModelSpec* model_of(ServiceId service) const;
  void close_wire();
  // Ends in `cold`, and tells the world what it waits for.
  void lose(const std::string& why);
  // Both have come: the node's word and its connection.
  void become_ready();
  void answered();
  void log(host::LogLevel level, std::string_view event, const std::string& reason) const;

  NodeHub& hub_;
  engines::LinkContext context_;
  SliceId slice_;
  NodeSliceConfig config_;
  engines::ExecutorEvents& events_;
  std::optional<NodeSpot> spot_;
  State state_ = State::cold;
  TimePoint due_ = kTimeNever;
  int waits_in_vain_ = 0;
  std::uint64_t life_ = 0;
  bool fresh_ = false;    // The next load must not trust the process that is there.
  bool loaded_ = false;   // The node has said so, in this life.
  bool leaving_ = false;  // The node leaves when its batch has ended.
  bool stopping_ = false;
  std::unique_ptr<node::Wire> wire_;
  std::unique_ptr<node::Wire> old_wire_;  // Closed inside of its own callback.
  client::HttpAnswerReader answer_;
  engines::BatchJob job_;
  TimePoint sent_at_;
  std::vector<ServiceId> unloaded_;
  std::vector<std::byte> memory_;
  engines::BatchMemory tensors_;
  Duration network_{};
  std::uint64_t batches_ = 0;
};

}  // namespace tangram::serve
