// The page that shows a fleet in live, recorded and simulated time: served by a gateway, or one self-contained file.
//
// Scripts and styles are within the page, and its policy (Content-Security-Policy) permits these and no others: by
// their digests. It loads nothing; the page of a gateway asks the gateway that it came from, a file asks nobody.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace tangram::report {

// The SHA-256 of a text, in Base64. Quiet rooms have no cryptography, so the caller brings it.
using Digest = std::function<std::string(std::string_view)>;

struct LivePage {
  std::string html;
  std::string policy;  // The value of Content-Security-Policy.
};

LivePage live_page(const Digest& digest);
// The same page with a history (control::history_json) inside.
std::string page_file(std::string_view history, std::string_view title, const Digest& digest);

}  // namespace tangram::report
