#include "report/page.h"

#include <fmt/format.h>

#include "report/plot.h"

namespace tangram::report::page {
namespace {

constexpr std::string_view kCommonStyle = R"(
:root{--bg:#f7f7f4;--card:#fff;--ink:#1d2430;--muted:#667085;--grid:#e9e9e4;--axis:#b9bdc6;--line:#e3e3dd;
--training:#3b6fb6;--running:#c0392b;--guarded:#e59a34;--asleep:#bfc4cc;--good:#1a8a5a;--warn:#d98a00;--bad:#cf3f3f;--idle:#eceef1;
--s0:#3866d6;--s1:#d9622b;--s2:#2a9d8f;--s3:#a14bc4;--s4:#b8860b;--s5:#c2386f;--s6:#4f8f2f;--s7:#5b6b82}
@media (prefers-color-scheme:dark){:root{--bg:#12151b;--card:#1a1f28;--ink:#e8eaee;--muted:#98a2b3;--grid:#262d38;
--axis:#465062;--line:#2a313d;--good:#3ecf8e;--warn:#f2b33d;--bad:#f2686b;--idle:#2a313c;
--s0:#7aa2ff;--s1:#ff9561;--s2:#4fd1c1;--s3:#cf8ff0;--s4:#e5bb4a;--s5:#f07fab;--s6:#8fce6b;--s7:#a5b4cb}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1180px;margin:0 auto;padding:36px 22px 70px}
h1{font-size:30px;line-height:1.2;margin:0 0 4px;letter-spacing:-.02em}h2{font-size:19px;margin:36px 0 10px;letter-spacing:-.01em}
svg{display:block;width:100%;height:auto;overflow:visible;font-family:inherit}
.scroll{overflow-x:auto;background:var(--card);border:1px solid var(--line);border-radius:12px}
table{border-collapse:collapse;width:100%;font-size:13px;font-variant-numeric:tabular-nums}
th,td{padding:7px 8px;text-align:right;white-space:nowrap;border-bottom:1px solid var(--line)}
th{color:var(--muted);font-weight:550;font-size:12.5px}
tr:last-child td{border-bottom:0}
th:first-child,td:first-child,td.text,th.text{text-align:left}
td.good{color:var(--good)}td.bad{color:var(--bad)}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;font-size:13px;color:var(--muted);margin:8px 0 0}
.dot{display:inline-block;width:11px;height:11px;border-radius:3px;margin-right:7px}
details{margin-top:40px;color:var(--muted)}pre{overflow-x:auto;font-size:12.5px;line-height:1.45}
footer{margin-top:34px;color:var(--muted);font-size:13px}
)";

}  // namespace

std::string opening(const Head& head) {
  std::string out =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n";
  if (!head.program.empty()) {
    out += fmt::format("<meta name=\"generator\" content=\"{}\">\n", plot::escape(head.program));
  }
  return out + fmt::format("<title>{} - Tangram</title>\n<style>{}{}</style>\n</head>\n<body>\n<main>\n",
                           plot::escape(head.title), kCommonStyle, head.style);
}

std::string closing() { return "</main>\n</body>\n</html>\n"; }

std::string series_colour(std::size_t i) { return fmt::format("s{}", i % 8); }

}  // namespace tangram::report::page
