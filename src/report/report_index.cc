#include "report/report_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "report/page.h"
#include "report/plot.h"

namespace tangram::report {
namespace {

constexpr std::string_view kIndexStyle = R"(
table{background:var(--card);border:1px solid var(--line)}td{text-align:left}a{color:inherit}
)";

std::string text_between(const std::string& text, std::string_view before, std::string_view after) {
  const auto begin = text.find(before);
  if (begin == std::string::npos) return "";
  const auto end = text.find(after, begin + before.size());
  if (end == std::string::npos) return "";
  return text.substr(begin + before.size(), end - begin - before.size());
}

// What only one kind of page has, and what people call that kind.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kPageKinds{{
    {"id=\"time-bar\"", "Fleet over time"},
    {"How close to its promise", "Plan"},
    {"<h1>Latency models</h1>", "Latency models"},
    {"Plans that follow the traffic", "Following the traffic"},
    {"class=\"panels\"", "Simulation"},
    {"<h1>Load", "Load"},
}};

}  // namespace

PageHead head_of_page(const std::string& html) {
  PageHead head;
  head.title = text_between(html, "<title>", "</title>");
  if (const auto end = head.title.rfind(" - Tangram"); end != std::string::npos) head.title.resize(end);
  head.program = text_between(html, "<meta name=\"generator\" content=\"", "\"");
  head.kind = "Report";
  for (const auto& [mark, kind] : kPageKinds) {
    if (html.find(mark) == std::string::npos) continue;
    head.kind = kind;
    break;
  }
  return head;
}

// Titles and programs are parts of pages, so they are escaped already.
std::string report_index(const std::vector<IndexedPage>& pages, const std::string& folder, const std::string& program) {
  std::string out = page::opening({.title = "Reports", .program = program, .style = kIndexStyle});
  out += fmt::format(
      "<h1>Reports</h1>\n<p>{} page{} in {}.</p>\n<table><tr><th>Report<th class=\"text\">Kind"
      "<th class=\"text\">Written by<th>Size</tr>\n",
      pages.size(), pages.size() == 1 ? "" : "s", plot::escape(folder));
  for (const auto& each : pages) {
    // A name may hold what means something in an address.
    std::string address;
    for (const char c : each.file) {
      const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
                         c == '-' || c == '_';
      address += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
    out += fmt::format("<tr><td><a href=\"./{}\">{}</a> <small>{}</small><td>{}<td>{}<td>{:.0f} KiB</tr>\n", address,
                       each.title.empty() ? plot::escape(each.file) : each.title, plot::escape(each.file),
                       plot::escape(each.kind), each.program.empty() ? "-" : each.program, each.kib);
  }
  return out + "</table>\n" + page::closing();
}

}  // namespace tangram::report
