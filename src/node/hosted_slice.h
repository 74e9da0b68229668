// One slice of a node while a gateway uses it: its executor, and the connection on which its batches come.
//
//   nothing --load--> starting --on_restarted(true), digests--> ready --request--> running --end--> ready
//                     starting --on_restarted(false)--> cold     ready, running --on_lost--> cold
//
// Invariants: the executor runs a batch exactly in `running` and `ending`; a request is open on the connection exactly
// in `running`; each load is answered by one `ready` or `failed`, unless another load or an unload comes first.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engines/executor.h"
#include "node/digests.h"
#include "node/node_protocol.h"
#include "node/wire.h"
#include "worker/worker_protocol.h"

namespace tangram::node {

class HostedSlice;

// What a hosted slice needs of its node. All of it outlives the slice.
class SliceHost {
 public:
  virtual ~SliceHost() = default;
  // The executor for this spec on the slice's share of the machine; its reports come by HostedSlice::on_event().
  virtual Result<std::unique_ptr<engines::Executor>> make_executor(const HostedSlice& slice) = 0;
  // The models of the spec with the paths of their weights on this machine. Errors: one leaves the folder of models.
  virtual Result<std::vector<engines::ModelSpec>> models_of(const worker::WorkerSpec& spec) const = 0;
  // Begins a connection to the gateway that the node has joined. Null: it cannot be now.
  virtual std::unique_ptr<Wire> dial(std::size_t in_max, WireOwner& owner) = 0;
  virtual const std::string& gateway_fingerprint() const = 0;
  virtual const std::string& gateway_place() const = 0;
  virtual const std::string& session() const = 0;  // Empty: the node has not joined.
  // Sends a control message; it is dropped if there is no gateway.
  virtual void tell(const ControlMessage& message) = 0;
  // The digests of the spec's weights, by name of the model. Nothing: they are being computed.
  virtual std::optional<std::map<std::string, std::string>> digests(const worker::WorkerSpec& spec) = 0;
  // Why the last start of an executor has failed.
  virtual std::string why_not_started() const = 0;
  virtual TimePoint now() const = 0;
};

// A report of an executor, kept until the executor has returned.
struct SliceEvent {
  enum class Kind : std::uint8_t { done, stopped, lost, restarted, not_restarted };
  Kind kind = Kind::done;
  BatchId batch = {};
  std::string text = {};
};

struct SliceCounts {
  std::uint64_t batches = 0;
  std::uint64_t failed = 0;
  std::uint64_t lost = 0;
};

class HostedSlice final : private WireOwner {
 public:
  HostedSlice(SliceHost& host, std::uint32_t number) : host_(host), number_(number) {}

  // A load for this slice. Errors: the spec is none.
  Result<Nothing> load(const ControlMessage& message);
  void stop(const ControlMessage& message);
  void on_event(const SliceEvent& event);
  // The gateway has gone: its connection and its batch go, the models stay.
  void on_gateway_lost();
  // The node has joined the gateway again: nothing is answered before the next load.
  void work(TimePoint now);
  TimePoint next_due() const;

  std::uint32_t number() const { return number_; }
  const ControlMessage& place() const { return place_; }  // As the load says.
  const worker::WorkerSpec& spec() const { return spec_; }
  const std::vector<const Signature*>& signatures() const { return signatures_; }
  bool running() const { return state_ == State::running || state_ == State::ending; }
  std::string_view state() const;
  const SliceCounts& counts() const { return counts_; }
  std::int64_t process() const { return executor_ == nullptr ? 0 : executor_->process(); }

 private:
  enum class State : std::uint8_t { nothing, starting, ready, running, ending, cold };
  enum class Link : std::uint8_t { none, asking, serving };

  // WireOwner, of the connection for batches.
  bool on_open(Wire& wire, const std::string& fingerprint) override;
  void on_bytes(Wire& wire) override;
  void on_closed(Wire& wire, const std::string& why) override;

  void connect();
  void disconnect();
  // Starts or restarts the executor. Ends in on_event(restarted).
  void start_executor();
  // The executor goes on with the models of spec_. False: it cannot.
  bool change_models();
  void enter_ready();
  // Answers the load, once digests are known and nothing runs.
  void answer_load();
  void fail_load(const std::string& why);
  // Runs or refuses the requests that are whole.
  void serve();
  // The first of them. False: there is none now.
  bool serve_one();
  // Runs a batch, or answers why not.
  void run(const BatchHead& head, std::string_view body, std::size_t json_length);
  void refuse(int status, const std::string& why);
  // The batch has ended; its request is answered if it is still open.
  void end_batch(const std::string& failure, bool stopped);
  // Ends what runs for nobody.
  void abandon();
  const engines::ModelSpec* model_of(ServiceId service) const;

  SliceHost& host_;
  std::uint32_t number_;
  ControlMessage place_;
  worker::WorkerSpec spec_;
  std::vector<const Signature*> signatures_;  // By service, into spec_.
  std::size_t in_max_ = 0;
  std::unique_ptr<engines::Executor> executor_;
  State state_ = State::nothing;
  bool owes_answer_ = false;  // To the last load.
  std::unique_ptr<Wire> wire_;
  bool serving_ = false;  // serve() is running.
  std::unique_ptr<Wire> old_wire_;  // Closed inside of its own callback; freed by work().
  Link link_ = Link::none;
  TimePoint connect_at_ = kTimeNever;
  TimePoint asked_until_ = kTimeNever;  // In `asking`.
  int connects_in_vain_ = 0;
  BatchHead batch_;
  engines::BatchMemory* memory_ = nullptr;
  TimePoint begun_;
  TimePoint request_began_ = kTimeNever;  // The first byte of the request came.
  TimePoint ends_at_ = kTimeNever;        // Of a batch whose time was known at its start.
  SliceCounts counts_;
};

}  // namespace tangram::node
