// The process on a machine: joins a gateway, hosts the slices that it was given, and runs the batches that come.
//
//   idle --pause over--> dialing --handshake--> joining --200--> joined --silence, end, refusal--> idle (next gateway)
//
// Models stay loaded between two joins, so a gateway that restarts, or its standby, finds them. One thread drives all.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engines/executor.h"
#include "engines/executor_links.h"
#include "host/socket.h"
#include "node/digests.h"
#include "node/hosted_slice.h"
#include "node/identity.h"
#include "node/node_protocol.h"
#include "node/wire.h"
#include "worker/worker_link.h"

namespace tangram::node {

// Where a gateway listens for nodes: a name or an address, and a port.
struct GatewayAddress {
  std::string host;
  std::uint16_t port = 0;

  std::string text() const;
};
// "gateway:8003", "10.0.0.5:8003", "[::1]:8003". Errors: anything else.
Result<GatewayAddress> parse_gateway(std::string_view text);

struct NodeConfig {
  std::string name;
  std::string version;
  std::vector<GatewayAddress> gateways;  // Asked in turn: a gateway and its standby.
  Identity identity;
  std::string token;                // Empty: the gateway knows the identity, or MUNGE says who we are.
  std::string gateway_fingerprint;  // Empty: the gateway shows a credential of MUNGE.
  bool munge = false;
  std::vector<OfferedBoard> boards;
  std::string models;          // The folder with weights.
  std::string worker_program;  // Empty: the one beside this program.
  std::optional<worker::WorkerUser> worker_user;
  worker::WorkerPatience patience;
  bool workers = false;  // Emulated slices have a process, too.
  // Variables for the process of a slice that exists: its MIG device. May be empty.
  std::function<std::vector<std::string>(const OfferedSlice&)> environment;
  Duration pause_min = std::chrono::milliseconds(100);  // Between two attempts to join.
  Duration pause_max = std::chrono::seconds(3);
  Duration leave_max = std::chrono::seconds(10);  // For batches that run when the node leaves.
};

class Node final : private SliceHost, private engines::ExecutorEvents, private WireOwner {
 public:
  // All but `config` outlive it.
  Node(NodeConfig config, host::EventLoop& loop, const host::LiveClock& clock, host::LogWriter& log);
  ~Node() override;

  // Handles what has happened and what is due. Called after each turn of the loop.
  void work(TimePoint now);
  // When work() is due again if nothing happens.
  TimePoint next_due() const;

  bool joined() const { return state_ == State::joined; }
  bool ever_joined() const { return ever_joined_; }
  // Why a gateway said that asking again is of no use; empty: none has.
  const std::string& refused() const { return refused_; }
  // Tells the gateway that the node goes. Its batches run to their end, for a while.
  void leave();
  // Everything that ran when the node began to leave has ended.
  bool left() const;
  std::size_t slices_hosted() const { return slices_.size(); }

 private:
  enum class State : std::uint8_t { idle, dialing, joining, joined };

  // SliceHost.
  Result<std::unique_ptr<engines::Executor>> make_executor(const HostedSlice& slice) override;
  Result<std::vector<engines::ModelSpec>> models_of(const worker::WorkerSpec& spec) const override;
  std::unique_ptr<Wire> dial(std::size_t in_max, WireOwner& owner) override;
  const std::string& gateway_fingerprint() const override { return shown_; }
  const std::string& gateway_place() const override { return place_; }
  const std::string& session() const override { return session_; }
  void tell(const ControlMessage& message) override;
  std::optional<std::map<std::string, std::string>> digests(const worker::WorkerSpec& spec) override;
  std::string why_not_started() const override;
  TimePoint now() const override { return clock_.now(); }

  // ExecutorEvents: kept until the executor has returned.
  void on_done(SliceId slice, BatchId batch, std::string failure) override;
  void on_stopped(SliceId slice, BatchId batch) override;
  void on_lost(SliceId slice, std::string reason) override;
  void on_restarted(SliceId slice, bool ok) override;

  // WireOwner, of the control connection.
  bool on_open(Wire& wire, const std::string& fingerprint) override;
  void on_bytes(Wire& wire) override;
  void on_closed(Wire& wire, const std::string& why) override;

  // Begins an attempt to join the next gateway.
  void begin_join();
  // Ends the connection to the gateway; the next attempt comes after a pause.
  void lose_gateway(const std::string& why);
  void take_join_answer();
  // Handles one line of the control connection. False: it is none, and the connection is of no more use.
  bool handle(std::string_view line);
  void load(const ControlMessage& message);
  void deliver_events();
  // Whether the board has room for a load beside the slices that it has.
  std::string why_no_room(const ControlMessage& message) const;
  void log(host::LogLevel level, std::string_view event, std::string_view reason) const;

  NodeConfig config_;
  engines::LinkContext context_;
  const host::LiveClock& clock_;
  std::shared_ptr<const host::TlsContext> tls_;
  worker::Workers workers_;
  std::unique_ptr<ModelDigests> digests_;  // Made when weights are loaded first: it has a thread.
  std::map<std::string, std::unique_ptr<HostedSlice>> slices_;  // By the gateway's name of them.
  std::map<std::uint32_t, HostedSlice*> by_number_;
  std::vector<std::unique_ptr<HostedSlice>> removed_;  // Until no call of theirs is under way.
  std::uint32_t next_number_ = 0;
  std::vector<std::pair<std::uint32_t, SliceEvent>> events_;

  State state_ = State::idle;
  std::unique_ptr<Wire> control_;
  std::unique_ptr<Wire> old_control_;
  std::size_t gateway_ = 0;                 // Of config_.gateways, that is asked next or was joined.
  std::vector<host::Endpoint> endpoints_;   // Its addresses that were not tried yet.
  host::Endpoint endpoint_;                 // The one in use.
  std::string place_;
  std::string shown_;    // The fingerprint of the gateway's certificate.
  std::string session_;  // Empty: not joined.
  Duration silence_max_ = std::chrono::seconds(3);
  TimePoint heard_at_;
  TimePoint due_;  // In `idle` the next attempt, in `dialing` and `joining` the end of this one.
  int attempts_in_vain_ = 0;
  bool ever_joined_ = false;
  std::string refused_;
  bool leaving_ = false;
  TimePoint leave_until_ = kTimeNever;
};

}  // namespace tangram::node
