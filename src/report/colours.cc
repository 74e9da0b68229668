// Every colour of the reports in one place.
//
// Pages and SVG documents have a light and a dark variant, chosen by the reader's system (prefers-color-scheme). SVG
// documents carry their own style sheet, because they are also shown outside our pages. Text styles in the terminal are
// the basic ANSI colours, which follow the theme of the terminal.

#include "report/colours.h"

namespace tangram::report {

std::string_view ansi_code(Style style) {
  switch (style) {
    case Style::plain: return "";
    case Style::bold: return "1";
    case Style::dim: return "2";
    case Style::good: return "32";
    case Style::bad: return "31";
    case Style::accent: return "36";
  }
  return "";
}

const std::string_view kPageColours = R"(
:root{--bg:#f7f7f4;--card:#fff;--ink:#1d2430;--muted:#667085;--grid:#e9e9e4;--axis:#b9bdc6;--line:#e3e3dd;
--training:#3b6fb6;--running:#c0392b;--guarded:#e59a34;--asleep:#bfc4cc;--good:#1a8a5a;--warn:#d98a00;--bad:#cf3f3f;--idle:#eceef1;
--free:#9aa5b1;--s0:#2f6fb3;--s1:#d9822b;--s2:#3b8f5c;--s3:#8a5bb5;--s4:#c2474b;--s5:#4aa3a2;--s6:#a7842b;--s7:#5b6bc0;
--s8:#b5578f;--s9:#6d8f2f;--s10:#7a6455;--s11:#3f7f93}
@media (prefers-color-scheme:dark){:root{--bg:#12151b;--card:#1a1f28;--ink:#e8eaee;--muted:#98a2b3;--grid:#262d38;
--axis:#465062;--line:#2a313d;--good:#3ecf8e;--warn:#f2b33d;--bad:#f2686b;--idle:#2a313c;
--free:#6b7684;--s0:#6fa8e6;--s1:#f0a75a;--s2:#66c28b;--s3:#b78ee0;--s4:#ee7f83;--s5:#74cfce;--s6:#d4b25c;--s7:#97a4f0;
--s8:#e08cbd;--s9:#a5c862;--s10:#b79f8e;--s11:#74b4c8}}
)";

const std::string_view kComparisonColours = R"(
:root{--ours:#1a7f4e;--theirs:#8a4fb0}
)";

const std::string_view kLayoutSvgStyle = R"(<style>
  .panel { fill: #ffffff; stroke: #d9dee5; }
  .title { fill: #16202c; font-size: 25px; font-weight: 650; letter-spacing: -0.2px; }
  .subtitle { fill: #5b6878; font-size: 14.5px; }
  .small { fill: #8793a3; font-size: 11px; }
  .legend { fill: #16202c; font-size: 12.5px; font-weight: 600; }
  .tile { font-size: 12.5px; font-weight: 600; }
  .unused { fill: #f1f4f7; stroke: #c3ccd6; stroke-dasharray: 3 3; }
  .line { stroke: #e4e8ed; }
  text { font-family: ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
  @media (prefers-color-scheme: dark) {
    .panel { fill: #141a22; stroke: #2b3542; }
    .title, .legend { fill: #eef2f6; }
    .subtitle { fill: #a3afbd; }
    .small { fill: #7f8b9a; }
    .unused { fill: #1b232d; stroke: #3d4957; }
    .line { stroke: #263140; }
  }
</style>
)";

const std::string_view kPlanSvgStyle = R"(<style>
  .panel { fill: #ffffff; stroke: #d9dee5; }
  .title { fill: #16202c; font-size: 25px; font-weight: 650; }
  .subtitle { fill: #5b6878; font-size: 14.5px; }
  .small { fill: #5b6878; font-size: 12px; }
  .tile { fill: #ffffff; font-size: 12.5px; font-weight: 600; }
  .tile-small { fill: #ffffff; font-size: 10.5px; opacity: 0.9; }
  .unused { fill: #f3f5f8; stroke: #d9dee5; stroke-dasharray: 3 3; }
  text { font-family: ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
  @media (prefers-color-scheme: dark) {
    .panel { fill: #141a22; stroke: #2b3542; }
    .title { fill: #eef2f6; }
    .subtitle, .small { fill: #a3afbd; }
    .unused { fill: #1b232d; stroke: #3d4957; }
  }
</style>
)";

}  // namespace tangram::report
