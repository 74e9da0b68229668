// The index of a folder of reports: one page that leads to all of them.
#pragma once

#include <string>
#include <vector>

namespace tangram::report {

// One page of a folder.
struct IndexedPage {
  std::string file;     // Its name, within the folder.
  std::string title;    // Without what follows " - Tangram".
  std::string program;  // That wrote it: "tangram 0.1.0"; empty: it does not say.
  std::string kind;     // "Plan"; see kind_of_page().
  double kib = 0;
};

// What a page of ours is; nothing if it is none. `html` may be its beginning only.
struct PageHead {
  std::string title;
  std::string program;
  std::string kind;
};
PageHead head_of_page(const std::string& html);

std::string report_index(const std::vector<IndexedPage>& pages, const std::string& folder, const std::string& program);

}  // namespace tangram::report
