// Why queued background requests do not run, in words for those who sent them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/ids.h"
#include "sched/background.h"

namespace tangram::serve {

class LiveWorld;

// One sentence without a full stop, or empty if none is queued or the first is next. `slices`: how many serve the
// service.
std::string why_background_waits(const sched::BackgroundOutlook& outlook, std::size_t slices);

// The numbers behind it, with the sentence as `why`.
nlohmann::ordered_json background_report(const LiveWorld& world, ServiceId service);

}  // namespace tangram::serve
