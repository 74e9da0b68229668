// `tangram report`: makes an index of the pages in a folder, so that one address leads to all of them.

#include "report/report_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/build_info.h"
#include "cli/program.h"
#include "host/files.h"
#include "report/table.h"

namespace tangram::cli {
namespace report_verb {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPagesMax = 10'000;
constexpr std::uint64_t kPageBytesMax = std::uint64_t{256} << 20;
constexpr const char* kIndexName = "index.html";
// Of a page that another program wrote, nothing is overwritten.
constexpr std::string_view kOurIndex = "<h1>Reports</h1>";

struct Options {
  std::string folder;
};

// The pages of the folder that Tangram wrote, by their titles.
Result<std::vector<report::IndexedPage>> pages_in(const fs::path& folder) {
  std::vector<report::IndexedPage> pages;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".html") || name == kIndexName || !entry.is_regular_file(error)) continue;
    if (pages.size() == kPagesMax) {
      return Error{ErrorCode::invalid, fmt::format("{}: more than {} pages", folder.string(), kPagesMax)};
    }
    TANGRAM_TRY(const auto html, host::read_file(entry.path().string(), kPageBytesMax));
    const report::PageHead head = report::head_of_page(html);
    if (html.find("- Tangram</title>") == std::string::npos && head.program.find("tangram") == std::string::npos)
      continue;
    pages.push_back({name, head.title, head.program, head.kind, static_cast<double>(html.size()) / 1024});
  }
  if (error) return Error{ErrorCode::not_found, fmt::format("{}: {}", folder.string(), error.message())};
  std::ranges::sort(pages, {}, [](const auto& page) { return std::pair(page.kind, page.file); });
  return pages;
}

Result<ExitCode> run(Session& session, const Options& options) {
  const fs::path folder = options.folder;
  TANGRAM_TRY(const auto pages, pages_in(folder));
  if (pages.empty()) {
    return session.fail(
        {ErrorCode::not_found,
         fmt::format("{}: no page that Tangram wrote; options such as --html and --page write them", options.folder)});
  }
  const std::string index = (folder / kIndexName).string();
  if (fs::exists(index)) {
    TANGRAM_TRY(const auto before, host::read_file(index, kPageBytesMax));
    if (before.find(kOurIndex) == std::string::npos) {
      return session.fail({ErrorCode::denied, index + ": this page is not an index of ours, and is not overwritten"});
    }
  }
  TANGRAM_RETURN_IF_ERROR(host::write_file_atomically(
      index,
      report::report_index(pages, fs::weakly_canonical(folder).filename().string(), generator_text(build_info()))));
  if (session.structured()) {
    report::Json list = report::Json::array();
    for (const auto& page : pages) {
      list.push_back({{"file", page.file}, {"title", page.title}, {"kind", page.kind}, {"kib", page.kib}});
    }
    session.print_value(report::Json{{"index", index}, {"pages", list}});
    return ExitCode::done;
  }
  report::Table table({{.title = "FILE"}, {.title = "KIND"}, {.title = "TITLE", .shrinks = true}});
  for (const auto& page : pages) table.add({page.file, page.kind, page.title});
  session.print(table.render(session.terminal));
  session.note("wrote " + index);
  return ExitCode::done;
}

}  // namespace
}  // namespace report_verb

void add_report(Program& program) {
  using namespace report_verb;
  const auto options = std::make_shared<Options>();
  Arguments& verb = program.add_verb(
      {.name = "report",
       .group = "Simulate",
       .summary = "make an index of the reports in a folder",
       .description =
           "Lists the pages in DIR that Tangram wrote (--html and --page of plan, learn, load, simulate and replay) and "
           "writes DIR/index.html, which leads to all of them. An index of another program is not overwritten.",
       .examples = {{"tangram report DIR", "Make the index, then open DIR/index.html."}}},
      [options](Session& session) { return run(session, *options); });
  program.offers_files(verb.add_option("DIR", options->folder, "The folder with the pages.")->required());
}

}  // namespace tangram::cli
