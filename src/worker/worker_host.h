// A worker: the process that runs the batches of one slice.
#pragma once

namespace tangram::worker {

// The descriptor at which a worker finds its socket.
inline constexpr int kWorkerSocket = 3;

// Speaks with the gateway over `socket` until that has gone. Returns the exit code of the process. It pins itself to
// the cores that its spec names, loads and warms up, and only then says that it is ready.
int run_worker(int socket);

}  // namespace tangram::worker
