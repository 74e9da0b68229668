// Who else cuts the GPUs of this machine.
#pragma once

#include <string>
#include <vector>

namespace tangram::adapters {

// One sentence for each MIG manager that may undo what we do: the systemd service nvidia-mig-manager where it is
// enabled or waits for a reboot, nvidia-mig-parted while it runs, and the MIG manager of the Kubernetes GPU operator.
// `root` is put before every path, so that a recorded machine can be examined.
std::vector<std::string> other_mig_owners(const std::string& root = "");

}  // namespace tangram::adapters
