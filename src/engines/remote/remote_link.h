// Slices whose batches run on another server that speaks the Open Inference Protocol over HTTP.
//
// A batch goes there as one request with binary tensors, padded as it is here, and its outputs come back the same way.
// A service asks for the model that its `model` names. Everything happens on the thread that drives the event loop.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engines/batch_engine.h"
#include "engines/executor.h"
#include "engines/executor_links.h"
#include "host/socket.h"
#include "host/tls.h"

namespace tangram::engines {

// The name of the engine.
inline constexpr std::string_view kRemoteEngine = "remote";
// The name of the engine whose servers we start ourselves; their batches go the same way.
inline constexpr std::string_view kCommandEngine = "command";

// "127.0.0.1:8000", "[::1]:8000" or "triton:8000": an address in numbers, or a name, with a port. A name is looked up
// now, which may take seconds. Errors: anything else, or a name that is not known.
Result<host::Endpoint> parse_remote_address(std::string_view text);

// How the other servers know us, and we them.
struct RemoteCaller {
  std::string key = {};                                   // Shown as a bearer token; empty: none.
  std::shared_ptr<const host::TlsContext> tls = nullptr;  // Null: plain.
  std::string server_name = {};                           // Whose certificate it must be; empty: the address.
};

struct RemoteConfig {
  host::Endpoint address;
  RemoteCaller caller;
  std::string title;  // The slice, for logs.
  std::vector<ModelSpec> models;
  // Between attempts to reach a server that is not ready.
  Duration pause_min = std::chrono::milliseconds(100);
  Duration pause_max = std::chrono::seconds(10);
  Duration answer = std::chrono::seconds(10);  // To the question whether it is ready.
  // We start the server, and watch its process: it is not asked whether it lives, and that it is not ready yet is not
  // worth a line in the log.
  bool starts = false;
};

class RemoteLink;
class RemoteWatch;

// All slices of a gateway that run elsewhere. A server that is gone is noticed also while nothing runs on it: all
// slices on it are then lost at once.
class Remotes {
 public:
  // All outlive it.
  Remotes(host::EventLoop& loop, const host::LiveClock& clock, host::LogWriter& log);
  ~Remotes();

  // The executor of a slice. It is ready once the server has said so of every model. It is destroyed before this is.
  std::unique_ptr<Executor> make(SliceId slice, RemoteConfig config, ExecutorEvents& events);
  // From the next request on they know us by another key, and from the next connection on by another certificate.
  void set_caller(const RemoteCaller& caller);
  // Starts the attempts whose pause is over, and ends those without an answer in time.
  void work(TimePoint now);
  // When work() is due again if nothing happens.
  TimePoint next_due() const;

 private:
  // The watch of a server, which is made at the first use.
  RemoteWatch& watch_of(const RemoteConfig& config);

  LinkContext context_;
  std::map<std::string, std::unique_ptr<RemoteWatch>> watches_;  // By address.
  LinkList<RemoteLink> links_;
};

// The request for a batch, from "POST" on, and what its answer says. `fields` are further lines of its head, each with
// its end. For tests, too.
std::string write_remote_request(const ModelSpec& model, const BatchJob& job, const BatchMemory& memory,
                                 std::string_view fields);
// Fills the outputs from the body of a 200. Errors: it is not the answer of this model to this batch.
Result<Nothing> read_remote_answer(const ModelSpec& model, std::string_view body, std::size_t json_length,
                                   const BatchMemory& memory);

}  // namespace tangram::engines
