// Functions that exporters share.
#pragma once

#include "formats/exports/naming.h"

namespace tangram::formats::exports {

// mig-parted's file for `nodes`, which the MIG manager of Kubernetes reads as well. It applies the label `all-disabled`
// to nodes that have no other, so its file needs that one.
std::string mig_parted_text(const ExportInput& input, const std::vector<ClusterNode>& nodes, bool all_disabled = false);

// "rack1-0/4g.40gb-0": the folder of a slice in the model repository that the format triton writes.
std::string triton_folder(const PlannedDevice& device, const PlannedSlice& slice);

// The gateway, the controller and what they need, for `kubectl apply`.
Result<Export> kubernetes_gateway(const ExportInput& input);

}  // namespace tangram::formats::exports
