// The page of web/ for verbs: as a file with a history inside, and as what a gateway serves.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "control/fleet_history.h"
#include "control/fleet_text.h"
#include "report/live_page.h"

namespace tangram::cli {

// The SHA-256 of a text in Base64, as a Content-Security-Policy wants it.
std::string page_digest(std::string_view text);

// Options of a history that is looked at as a whole: about `steps` frames over `length`, with memory for a few of them
// more. An unknown length (zero) begins with a frame a second.
control::FleetHistoryOptions whole_history(Duration length);

// Writes the page of a run or recording to `path`.
Result<Nothing> write_page(const std::string& path, const control::FleetHistory& history,
                           const control::RecordedPage& page);

}  // namespace tangram::cli
