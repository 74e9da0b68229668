// An engine for measuring: batches run on a server that speaks the Open Inference Protocol over HTTP, one at a time.
//
// The time of a run is what a gateway would wait for: the request to the server, the run, and the answer back. The
// server is there already, or is started for each slice. It is alone on its slice; nothing here can check that.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "engines/batch_engine.h"
#include "engines/engine.h"
#include "engines/remote/remote_link.h"

namespace tangram::engines {

// A server that was started for a slice. Destroying it ends the server.
class StartedServer {
 public:
  virtual ~StartedServer() = default;
  virtual host::Endpoint address() const = 0;
  // How it ended; nothing while it runs.
  virtual std::optional<std::string> ended() = 0;
  // The largest memory of all its processes together so far; nothing if it is not known.
  virtual std::optional<double> memory_mib() const = 0;
};

struct RemoteEngineConfig {
  ModelSpec model;      // The only one; placements name its network, and so does the server.
  std::string profile;  // Of the slice that a server which is there already runs on; empty: of any that is asked for.
  host::Endpoint address = {};  // Of such a server.
  RemoteCaller caller = {};     // How it knows us.
  // Starts a server for a slice, instead of `address`. May be empty.
  std::function<Result<std::unique_ptr<StartedServer>>(const Placement&)> start = {};
  Duration patience = std::chrono::minutes(5);  // Until it is ready, and for a batch.
};

std::unique_ptr<Engine> make_remote_engine(RemoteEngineConfig config);

}  // namespace tangram::engines
