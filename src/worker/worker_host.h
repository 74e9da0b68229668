// A worker: the process that runs the batches of one slice.
#pragma once

namespace tangram::worker {

// The descriptor at which a worker finds its socket.
inline constexpr int kWorkerSocket = 3;

// Serves the gateway at `socket` until it closes the connection. Returns the exit code of the process. The worker pins
// itself to the cores in its spec, loads and warms up its models, and only then reports that it is ready.
int run_worker(int socket);

}  // namespace tangram::worker
