// The style sheets of HTML pages without their colours, and the script of the one page that has one.
#pragma once

#include <string_view>

namespace tangram::report {

// Of every page: type, tables, legends.
extern const std::string_view kPageStyle;
// Of one kind of page each, after those of every page.
extern const std::string_view kRunStyle;
extern const std::string_view kLoadStyle;
extern const std::string_view kLearnStyle;
extern const std::string_view kReplanStyle;

// The tabs of a page with several runs.
extern const std::string_view kRunScript;

}  // namespace tangram::report
