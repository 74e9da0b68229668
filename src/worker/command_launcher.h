// A user's own server, started on a slice: pinned to its cores, ended with all that it has started.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tangram::worker {

// What a command may mention.
struct CommandPlace {
  std::uint16_t port = 0;       // {port}
  std::string model = {};       // {model}
  std::string slice = {};       // {slice}
  std::vector<int> cores = {};  // {cores}: "0,1"
};

// The command with every {name} replaced; text for the shell is quoted. Errors: a {name} that is none of these.
Result<std::string> fill_command(std::string_view command, const CommandPlace& place);

// A free port of 127.0.0.1, and not one of those that this process was given last: a server takes a while to listen,
// and its port must not go to the next one meanwhile. Any thread. Another program may take it before the server does;
// the server then ends and is started again with another.
Result<std::uint16_t> free_port();

// Starts `command` in a shell, in a process group of its own whose number is returned: kill(-group, SIGKILL) ends all
// of it, and so does the end of this process. It runs on `cores` (empty: anywhere) with `environment` added to ours.
// Its output goes to our standard error. `program` is that of the workers, which does the work. `control_group`: the
// folder of the one that limits it, which it is in before it starts anything; empty: ours.
Result<pid_t> start_command(const std::string& program, const std::string& command, const std::vector<int>& cores,
                            const std::vector<std::string>& environment, const std::string& control_group = {});

// Sends SIGTERM to everything that start_command() has started as `group`, which may take its time to end. SIGTERM sent to
// the group itself, or the end of this process, kills all of it at once.
void ask_command_to_end(pid_t group);

// The part that runs in the process started by start_command: tangram-worker --run CORES COMMAND CONTROL_GROUP. Returns
// the exit code.
int run_command(const char* cores, const char* command, const std::string& control_group);

}  // namespace tangram::worker
