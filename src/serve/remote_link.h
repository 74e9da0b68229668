// Slices whose batches run on another server that speaks the Open Inference Protocol over HTTP.
//
// A batch goes there as one request with binary tensors, padded as it is here, and its outputs come back the same way.
// A service asks for the model that its `model` names. Everything happens on the thread that drives the event loop.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engines/batch_engine.h"
#include "engines/executor.h"
#include "host/event_loop.h"
#include "host/log.h"
#include "host/tls.h"

namespace tangram::serve {

// The name of the engine.
inline constexpr std::string_view kRemoteEngine = "remote";

// An address in numbers.
struct RemoteAddress {
  std::string host;
  std::uint16_t port = 0;

  bool operator==(const RemoteAddress&) const = default;
};

// "127.0.0.1:8000". Errors: anything else.
Result<RemoteAddress> parse_remote_address(std::string_view text);

// How the other servers know us, and we them.
struct RemoteCaller {
  std::string key = {};                             // Shown as a bearer token; empty: none.
  std::shared_ptr<const host::TlsContext> tls = nullptr;  // Null: plain.
  std::string server_name = {};                     // Whose certificate it must be; empty: the address.
};

struct RemoteConfig {
  RemoteAddress address;
  RemoteCaller caller;
  std::string title;  // The slice, for logs.
  std::vector<engines::ModelSpec> models;
  // Between attempts to reach a server that is not ready.
  Duration pause_min = std::chrono::milliseconds(100);
  Duration pause_max = std::chrono::seconds(10);
  Duration answer = std::chrono::seconds(10);  // To the question whether it is ready.
};

class RemoteLink;

// All slices of a gateway that run elsewhere.
class Remotes {
 public:
  Remotes(host::EventLoop& loop, const host::LiveClock& clock, host::LogWriter& log) : loop_(loop), clock_(clock), log_(log) {}
  ~Remotes();
  Remotes(const Remotes&) = delete;
  Remotes& operator=(const Remotes&) = delete;

  // The executor of a slice. It is ready once the server has said so of every model.
  std::unique_ptr<engines::Executor> make(SliceId slice, RemoteConfig config, engines::ExecutorEvents& events);
  // From the next request on they know us by another key, and from the next connection on by another certificate.
  void set_caller(const RemoteCaller& caller);
  void work(TimePoint now);
  TimePoint next_due() const;

 private:
  friend class RemoteLink;

  host::EventLoop& loop_;
  const host::LiveClock& clock_;
  host::LogWriter& log_;
  std::vector<RemoteLink*> links_;
};

// The request for a batch, from "POST" on, and what its answer says. `fields` are further lines of its head, each with
// its end. For tests, too.
std::string write_remote_request(const engines::ModelSpec& model, const engines::BatchJob& job,
                                 const engines::BatchMemory& memory, std::string_view fields);
// Fills the outputs from the body of a 200. Errors: it is not the answer of this model to this batch.
Result<Nothing> read_remote_answer(const engines::ModelSpec& model, std::string_view body, std::size_t json_length,
                                   const engines::BatchMemory& memory);

}  // namespace tangram::serve
