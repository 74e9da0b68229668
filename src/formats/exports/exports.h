// Functions that exporters share.
#pragma once

#include "formats/exports/naming.h"

namespace tangram::formats::exports {

// mig-parted's file for `nodes`, which the MIG manager of Kubernetes reads as well.
std::string mig_parted_text(const ExportInput& input, const std::vector<ClusterNode>& nodes);

}  // namespace tangram::formats::exports
