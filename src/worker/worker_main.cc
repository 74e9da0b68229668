// `tangram-worker`: runs the batches of one slice for the `tangram serve` that started it. Not for people.

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "worker/worker_host.h"

int main(int argc, char** argv) {
  if (argc != 2 || std::strcmp(argv[1], "--serve") != 0 || fcntl(tangram::worker::kWorkerSocket, F_GETFD) < 0) {
    std::fputs("tangram-worker runs the batches of one slice; `tangram serve` starts it.\n", stderr);
    return 2;
  }
  // No worker outlives its gateway: the kernel kills it, and where the gateway was gone before this line, the socket is
  // closed, which ends it, too.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGPIPE, SIG_IGN);
  close_range(tangram::worker::kWorkerSocket + 1, ~0U, 0);
  return tangram::worker::run_worker(tangram::worker::kWorkerSocket);
}
