// How a recording writes what a scheduler starts from, and the words of its lines.
//
// A recording is text, one record a line:
//
//   tangram recording 2
//   config {"policy":"tangram",...}
//   deployment {"devices":[...],...}
//   > 1500000 arrival 0 0 0 0 1 20 51500000     an event and its instant in nanoseconds
//   < launch 1 0 0 0 32 1 2000000: 0            an action that it caused
//   end
//
// Configuration and deployment are written and read by one description each, so that what is written is what is read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sched/deployment.h"
#include "sched/scheduler.h"

namespace tangram::sched {

inline constexpr int kRecordingVersion = 2;

// One line of JSON without its end. A device keeps the names of its profiles; the rest of its geometry is left out,
// because the scheduler never looks at it.
std::string write_config(const SchedulerConfig& config);
std::string write_deployment(const Deployment& deployment);

// The way back. Errors: the text is no JSON, a field is missing or unknown, or parts of it disagree.
Result<SchedulerConfig> read_config(std::string_view text);
Result<Deployment> read_deployment(std::string_view text);

// `0@0 3@4`: the index of each slice's profile and where it starts; `empty` for a device without slices.
std::string write_layout(const Layout& layout);
std::optional<Layout> read_layout(std::string_view text);

// Whole numbers with spaces between them; nothing if a part of the text is none.
std::optional<std::vector<std::int64_t>> read_numbers(std::string_view text);

// The first word of `text`, which keeps what follows the space behind it.
std::string_view take_word(std::string_view& text);

}  // namespace tangram::sched
