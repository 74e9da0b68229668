// `tangram-worker`: runs the batches of one slice for the `tangram serve` that started it. Not for people.

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "worker/command_launcher.h"
#include "worker/worker_host.h"

int main(int argc, char** argv) {
  if (argc == 5 && std::strcmp(argv[1], "--run") == 0) return tangram::worker::run_command(argv[2], argv[3], argv[4]);
  // Started by hand there is no socket at descriptor 3, and the program explains itself instead of waiting for ever.
  if (argc != 2 || std::strcmp(argv[1], "--serve") != 0 || fcntl(tangram::worker::kWorkerSocket, F_GETFD) < 0) {
    std::fputs("tangram-worker runs the batches of one slice; `tangram serve` starts it.\n", stderr);
    return 2;
  }
  // No worker outlives its gateway: the kernel kills it when the gateway dies. If the gateway died before this line,
  // the socket is already closed, and the worker ends on its first read.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // A write to a closed socket must return an error, also inside the libraries of an engine.
  signal(SIGPIPE, SIG_IGN);
  // Descriptors that the gateway opened without CLOEXEC would otherwise stay open here, for example a listening socket.
  close_range(tangram::worker::kWorkerSocket + 1, ~0U, 0);
  return tangram::worker::run_worker(tangram::worker::kWorkerSocket);
}
