// `tangram-worker`: runs the batches of one slice for the `tangram serve` that started it. Not for people.

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <optional>

#include "worker/command_launcher.h"
#include "worker/confine.h"
#include "worker/worker_host.h"

namespace {

// "--user=UID:GID".
bool read_user(const char* text, std::optional<tangram::worker::WorkerUser>& user) {
  tangram::worker::WorkerUser read;
  char end = 0;
  if (std::sscanf(text, "--user=%u:%u%c", &read.user, &read.group, &end) != 2) return false;
  user = read;
  return true;
}

// For `tangram doctor`: what a worker started here is confined by, one line each.
int show_measures() {
  if (tangram::worker::confine(std::nullopt)) return 1;
  for (const auto& measure : tangram::worker::measures_in_force()) {
    std::printf("%s %d\n", measure.name.c_str(), measure.in_force ? 1 : 0);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 5 && std::strcmp(argv[1], "--run") == 0) return tangram::worker::run_command(argv[2], argv[3], argv[4]);
  if (argc == 2 && std::strcmp(argv[1], "--measures") == 0) return show_measures();
  std::optional<tangram::worker::WorkerUser> user;
  const bool good = argc == 2 || (argc == 3 && read_user(argv[2], user));
  // Started by hand there is no socket at descriptor 3, and the program explains itself instead of waiting for ever.
  if (!good || std::strcmp(argv[1], "--serve") != 0 || fcntl(tangram::worker::kWorkerSocket, F_GETFD) < 0) {
    std::fputs("tangram-worker runs the batches of one slice; `tangram serve` starts it.\n", stderr);
    return 2;
  }
  // Descriptors that the gateway opened without CLOEXEC would otherwise stay open here, for example a listening socket.
  close_range(tangram::worker::kWorkerSocket + 1, ~0U, 0);
  if (const auto wrong = tangram::worker::confine(user)) {
    std::fprintf(stderr, "tangram-worker: %s\n", wrong->c_str());
    return 1;
  }
  // After the change of user, which clears it.
  //
  // No worker outlives its gateway: the kernel kills it when the gateway dies. If the gateway died before this line,
  // the socket is already closed, and the worker ends on its first read.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // A write to a closed socket must return an error, also inside the libraries of an engine.
  signal(SIGPIPE, SIG_IGN);
  return tangram::worker::run_worker(tangram::worker::kWorkerSocket);
}
