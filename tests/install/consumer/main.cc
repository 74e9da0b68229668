// What an embedder writes: parse a layout of an A100, print it back.
#include <cstdio>

#include "core/layout.h"

int main() {
  const tangram::Geometry& geometry = *tangram::find_geometry("a100-40gb");
  const auto parsed = tangram::parse_layout(geometry, "3g@4 + 4g@0");
  std::puts(to_string(geometry, parsed.layout).c_str());
  return parsed.problems.empty() ? 0 : 1;
}
