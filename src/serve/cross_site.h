// What browsers of other sites may do here: read nothing and change nothing, unless they were allowed to.
//
// A page of any site can make a browser send requests to an address that the browser can reach, such as the admin port
// on the loopback address. Such requests carry an Origin or Sec-Fetch-Site that pages cannot change, and a Host that
// shows which name was resolved (a name of theirs that points to our address is DNS rebinding).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/http_parser.h"

namespace tangram::serve {

struct CrossSiteRules {
  // Names under which the admin port may be asked, besides numbers and localhost. In lower case, without port.
  std::vector<std::string> admin_hosts;
  // Origins whose pages may use the data port, as browsers write them (https://app.example); "*" is every one.
  std::vector<std::string> origins;
  // What the answers to each of them carry, in the same order: cors_answer_fields().
  std::vector<std::string> answer_fields = {};
};
// For pages of this origin: the fields of every answer.
std::string cors_answer_fields(std::string_view origin);

// The host of an authority without its port and brackets: "[::1]:8002" gives "::1".
std::string_view host_of_authority(std::string_view authority);
// True for numbers, localhost, and the names of `allowed`, whatever their case. An empty one is no name.
bool is_known_host(std::string_view authority, const std::vector<std::string>& allowed);

// Why a request that changes something is refused, or nullopt: it comes from a page of another site. `origins`: whose
// pages may.
std::optional<std::string_view> why_cross_site(const host::HttpHead& head, const std::vector<std::string>& origins);

// The fields that let the page that asks read the answer, as a view into the rules; empty: it has no Origin that may.
std::string_view cors_fields(const host::HttpHead& head, const CrossSiteRules& rules);
// What the answer to OPTIONS allows besides.
inline constexpr std::string_view kPreflightFields =
    "Access-Control-Allow-Methods: GET, HEAD, POST\r\n"
    "Access-Control-Allow-Headers: Authorization, X-Api-Key, Content-Type, Content-Encoding, "
    "Inference-Header-Content-Length, Tangram-Deadline-Ms, Tangram-Input-Size, Tangram-Background, traceparent\r\n"
    "Access-Control-Max-Age: 600\r\n";

// "https://app.example:8443", "*": what an Origin can be; anything else can never match.
bool is_origin(std::string_view text);

}  // namespace tangram::serve
