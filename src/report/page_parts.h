// The parts of the page of web/, as cmake/embed_page.cmake writes them into the program.
#pragma once

#include <string_view>

namespace tangram::report {

extern const std::string_view kLivePageScript;
extern const std::string_view kLivePageStyle;
extern const std::string_view kLivePageBody;

}  // namespace tangram::report
