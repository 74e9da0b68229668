// Which layouts a GPU is cut into so that every MigProfile can be measured, with as few cuts as possible.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "core/layout.h"

namespace tangram::measure {

// Slices of these profiles are there at the same time.
struct CutStage {
  Layout layout;
  std::vector<std::string> profiles;  // To be measured in this stage; each profile is in one stage.
};

// The stages in their order, as few as possible; the first is `now`, without a cut, if it has one of the profiles. From
// stage to stage as few slices as possible come and go. Errors: a profile that the geometry does not have, more than
// kProfilesMax of them, or kLayoutsMax is exceeded.
inline constexpr std::size_t kProfilesMax = 14;
Result<std::vector<CutStage>> plan_cuts(const Geometry& geometry, const std::vector<std::string>& profiles,
                                        const Layout& now);

}  // namespace tangram::measure
