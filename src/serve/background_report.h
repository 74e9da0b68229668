// Why requests that wait in the background do not run, in words for those who sent them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/ids.h"
#include "sched/background.h"

namespace tangram::serve {

class LiveWorld;

// One sentence without an end, or nothing: none waits, or what waits is next. `slices`: how many serve the service.
std::string why_background_waits(const sched::BackgroundOutlook& outlook, std::size_t slices);

// The numbers behind it, with the sentence as `why`.
nlohmann::ordered_json background_report(const LiveWorld& world, ServiceId service);

}  // namespace tangram::serve
