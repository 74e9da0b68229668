// The recuts file: how long creating and destroying the slices of a layout took. Each row summarises all runs of one
// action: mean, quantiles and the longest.

#include "formats/recuts_file.h"

#include "formats/detail/limits.h"
#include "formats/detail/shapes.h"
#include "formats/table.h"

namespace tangram::formats {

template <typename Visitor>
void describe(Visitor& v, RecutAction& action) {
  v.name("create", action, RecutAction::create, "The slices were created on an empty device.");
  v.name("destroy", action, RecutAction::destroy, "The slices were destroyed again.");
}

template <typename Visitor>
void describe(Visitor& v, Recut& c) {
  constexpr Limits kTime{.min = 0, .max = kLatencyMsMax, .required = true};
  v.about("Re-cuts", "One row per layout and action: how long it took to create or destroy the slices of the layout.");
  v.field("slices", c.slices, {.required = true}, "The slices, by their compute slices: `4g+3g`.");
  v.field("action", c.action, {.required = true}, "The action that was timed.");
  v.field("runs", c.runs, {.min = 1, .max = 1e9}, "The number of runs.");
  v.field("mean_ms", c.mean_ms, kTime, "Mean over all runs.");
  v.field("p50_ms", c.p50_ms, kTime, "The median over all runs.");
  v.field("p99_ms", c.p99_ms, kTime, "The 99th percentile over all runs.");
  v.field("max_ms", c.max_ms, kTime, "The longest run.");
  v.rule(c.p50_ms <= c.p99_ms && c.p99_ms <= c.max_ms, {"p99_ms", "p50_ms", "max_ms"},
         "p99_ms must be between p50_ms and max_ms");
}

Result<std::vector<Recut>> parse_recuts(const Source& source) {
  Problems problems(source.name);
  std::vector<Recut> recuts;
  for_each_row<Recut>(source, Header::strict, problems,
                      [&](Recut recut, const RowPlace&) { recuts.push_back(std::move(recut)); });
  if (!problems.empty()) return problems.error();
  return recuts;
}

std::string write_recuts(const std::vector<Recut>& recuts) { return write_table(recuts); }

Shape recut_shape() { return shape_of<Recut>(); }

}  // namespace tangram::formats
