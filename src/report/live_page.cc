#include "report/live_page.h"

#include <fmt/format.h>

#include "report/colours.h"
#include "report/page_parts.h"
#include "report/plot.h"

namespace tangram::report {
namespace {

std::string policy_of(const Digest& digest, std::string_view style, bool asks) {
  return fmt::format(
      "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data:; {}base-uri 'none'; "
      "form-action 'none'",
      digest(kLivePageScript), digest(style), asks ? "connect-src 'self'; frame-ancestors 'none'; " : "");
}

std::string style_text() { return fmt::format("{}{}", kPageColours, kLivePageStyle); }

std::string page_document(std::string_view title, std::string_view policy, std::string_view style,
                     std::string_view history) {
  std::string out =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n"
      // Without one, browsers ask for /favicon.ico.
      "<link rel=\"icon\" href=\"data:,\">\n";
  if (!policy.empty()) out += fmt::format("<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n", policy);
  out += fmt::format("<title>{}</title>\n<style>{}</style>\n</head>\n{}", plot::escape(title), style, kLivePageBody);
  if (!history.empty()) {
    // Data, not a script: it is not run, and its only danger is the end of its element.
    out += "<script type=\"application/json\" id=\"history\">";
    for (const char c : history) c == '<' ? out += "\\u003c" : out += c;
    out += "</script>\n";
  }
  return out + fmt::format("<script>{}</script>\n</body>\n</html>\n", kLivePageScript);
}

}  // namespace

LivePage live_page(const Digest& digest) {
  const std::string style = style_text();
  return {page_document("Tangram", "", style, ""), policy_of(digest, style, true)};
}

std::string page_file(std::string_view history, std::string_view title, const Digest& digest) {
  const std::string style = style_text();
  return page_document(fmt::format("{} - Tangram", title), policy_of(digest, style, false), style, history);
}

}  // namespace tangram::report
