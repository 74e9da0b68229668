// What an experiment found, for people and for programs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/table.h"
#include "report/yaml.h"

namespace tangram::experiments {

// Text, then a table where there is one.
struct Section {
  std::string text;
  std::optional<report::Table> table = std::nullopt;
};

struct Answer {
  std::vector<Section> sections;
  report::Json json = report::Json::array();  // The same figures, unrounded.
  std::string page;                           // HTML; empty unless the input asked for it.
  bool found = true;                          // False: the data is fine, and the experiment has no result on it.
};

}  // namespace tangram::experiments
