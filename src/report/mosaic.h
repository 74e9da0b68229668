// Layouts drawn in a terminal.
#pragma once

#include <span>
#include <string>

#include "core/layout.h"
#include "report/style.h"

namespace tangram::report {

struct MosaicRow {
  Layout layout;
  std::string left;   // Before the row.
  std::string right;  // After it.
};

struct MosaicOptions {
  std::string left_title = {};
  std::string right_title = {};
  int indent = 0;
  bool ruler = true;  // Numbers of the units above.
  bool boxed = true;  // A line between every two rows; without it, only above the first and below the last.
};

// One row for each layout, aligned to the units of the device, no wider than the terminal. Slices are boxes with
// their names in them, filled with colour where there is any; unused units are shaded. Empty where the device has
// more units than the terminal has columns.
std::string draw_mosaic(const Geometry& geometry, std::span<const MosaicRow> rows, const Terminal& terminal,
                        const MosaicOptions& options = {});

}  // namespace tangram::report
