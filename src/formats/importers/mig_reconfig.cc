// Times to create and to destroy the slices of an A100, run by run, summarised for each layout and action.

#include <algorithm>
#include <map>

#include "base/statistics.h"
#include "formats/importers/importers.h"
#include "formats/recuts_file.h"

namespace tangram::formats::importers {
namespace {

struct Row {
  std::string slices;
  std::string action;
  double time_ms = 0;
};

template <typename Visitor>
void describe(Visitor& v, Row& c) {
  v.field("partition", c.slices, {.required = true}, "");
  v.field("action", c.action, {.required = true}, "");
  v.field("time_ms", c.time_ms, {.min = 0, .max = 1e9, .required = true}, "");
  v.rule(c.action == "create" || c.action == "destroy", {"action"}, "action must be create or destroy");
}

}  // namespace

Result<std::string> mig_reconfig(const Files& files, std::string_view) {
  // Ordered by layout and action, which is also the order of the output.
  std::map<std::pair<std::string, RecutAction>, std::vector<double>> times;
  const auto problems = for_each_row_of<Row>(files, [&](Row row, const RowPlace&, Problems&, const Source&) {
    times[{std::move(row.slices), row.action == "create" ? RecutAction::create : RecutAction::destroy}].push_back(
        row.time_ms);
  });
  if (!problems.empty()) return problems.error();
  if (times.empty()) return no_rows(files);
  std::vector<Recut> recuts;
  for (auto& [key, values] : times) {
    // Sorted before summing, so that the mean does not depend on the order of the rows or files.
    std::ranges::sort(values);
    double sum = 0;
    for (const double value : values) sum += value;
    recuts.push_back({.slices = key.first,
                      .action = key.second,
                      .runs = static_cast<std::int64_t>(values.size()),
                      .mean_ms = sum / static_cast<double>(values.size()),
                      // Nearest ranks: each quoted time is one that was measured.
                      .p50_ms = quantile_nearest_rank(values, 0.5),
                      .p99_ms = quantile_nearest_rank(values, 0.99),
                      .max_ms = values.back()});
  }
  return write_recuts(recuts);
}

}  // namespace tangram::formats::importers
