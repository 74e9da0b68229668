// The style sheets of the HTML reports, without colours (see colours.cc).
//
// The text goes into every page, so it is kept short.

#include "report/page_style.h"

namespace tangram::report {

const std::string_view kPageStyle = R"(*{box-sizing:border-box}
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

const std::string_view kRunStyle = R"(
h3{font-size:16px;margin:0}
p.sub{margin:0 0 6px;color:var(--muted)}
p.lead{margin:14px 0 0;font-size:17px;max-width:80ch}
p.why{margin:-6px 0 12px;color:var(--muted);max-width:75ch}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin:22px 0 0}
.card{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:14px 16px}
.card b{display:block;font-size:22px;line-height:1.3;white-space:nowrap;font-weight:640;font-variant-numeric:tabular-nums;letter-spacing:-.02em}
.card span{color:var(--muted);font-size:13px}
.card.good b{color:var(--good)}.card.bad b{color:var(--bad)}
.service{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:14px 18px 8px;margin:0 0 14px}
.service header{display:flex;flex-wrap:wrap;align-items:baseline;gap:4px 14px;margin-bottom:6px}
.service header small{color:var(--muted);font-size:13px}
.badge{font-size:12px;font-weight:600;border-radius:20px;padding:1px 10px;border:1px solid}
.badge.good{color:var(--good)}.badge.bad{color:var(--bad)}
.panels{display:grid;grid-template-columns:2fr 1.4fr 1fr;gap:18px}
.panels figcaption,.wide figcaption{font-size:12.5px;color:var(--muted)}
figure.wide figcaption{margin-bottom:10px}
figure{margin:0;min-width:0}
.wide{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:14px 18px}
th:first-child,td:first-child{padding-left:14px}
th:last-child,td:last-child{padding-right:14px}
nav{display:flex;flex-wrap:wrap;gap:8px;margin:34px 0 0}
nav button{font:inherit;font-size:14px;color:var(--ink);background:var(--card);border:1px solid var(--line);border-radius:20px;
padding:5px 16px;cursor:pointer}
nav button[aria-selected=true]{background:var(--ink);color:var(--bg);border-color:var(--ink)}
@media (max-width:820px){.panels{grid-template-columns:1fr}}
@media print{nav{display:none}section[hidden]{display:block}}
)";

const std::string_view kLoadStyle = R"(
p{color:var(--muted);margin:0 0 16px;max-width:80ch}
.box{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:12px 16px;margin:0 0 14px;overflow-x:auto}
.pair{display:grid;grid-template-columns:1.6fr 1fr;gap:18px}@media (max-width:820px){.pair{grid-template-columns:1fr}}
small{color:var(--muted)}
)";

const std::string_view kLearnStyle = R"(
section{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:14px 18px;margin:0 0 16px}
section>div{display:grid;grid-template-columns:repeat(auto-fit,minmax(300px,1fr));gap:22px}
section>div.tables{display:block;overflow:auto;margin-top:14px}figure{margin:0}figcaption{color:var(--muted);font-size:12.5px}
p{color:var(--muted);margin:2px 0 10px}h1{margin:0 0 4px}h2{margin:0}
table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums;margin:0 18px 12px 0;float:left}
th,td{text-align:right;padding:2px 8px;border-bottom:1px solid var(--line)}th:first-child,td:first-child{text-align:left}
)";

const std::string_view kReplanStyle = R"(
p{color:var(--muted);max-width:80ch;margin:0 0 10px}
figure{margin:0 0 14px;background:var(--card);border:1px solid var(--line);border-radius:12px;padding:14px 18px}
)";

const std::string_view kRunScript = R"(
for (const b of document.querySelectorAll('nav button')) b.onclick = () => {
  for (const o of document.querySelectorAll('nav button')) o.setAttribute('aria-selected', o === b);
  for (const s of document.querySelectorAll('section.run')) s.hidden = s.id !== b.dataset.run;
};
)";

}  // namespace tangram::report
