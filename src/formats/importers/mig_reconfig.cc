// How long creating and destroying the slices of an A100 took, run by run, summed up for each layout.

#include <algorithm>
#include <cmath>
#include <map>

#include "formats/importers/importers.h"

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
}

struct Summary {
  std::string slices;
  std::string action;
  std::int64_t runs = 0;
  double mean_ms = 0;
  double p50_ms = 0;
  double p99_ms = 0;
  double max_ms = 0;
};

template <typename Visitor>
void describe(Visitor& v, Summary& c) {
  v.field("slices", c.slices, "");
  v.field("action", c.action, "");
  v.field("runs", c.runs, "");
  v.field("mean_ms", c.mean_ms, "");
  v.field("p50_ms", c.p50_ms, "");
  v.field("p99_ms", c.p99_ms, "");
  v.field("max_ms", c.max_ms, "");
}

// The smallest value that at least this share of all is not above.
double quantile(const std::vector<double>& sorted, double share) {
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::max<std::size_t>(rank, 1) - 1];
}

}  // namespace

Result<std::string> mig_reconfig(const Files& files, std::string_view) {
  std::map<std::pair<std::string, std::string>, std::vector<double>> times;
  const auto problems = for_each_row_of<Row>(files, [&](Row row, const RowPlace&, Problems&, const Source&) {
    times[{std::move(row.slices), std::move(row.action)}].push_back(row.time_ms);
  });
  if (!problems.empty()) return problems.error();
  std::vector<Summary> summaries;
  for (auto& [key, values] : times) {
    std::ranges::sort(values);
    double sum = 0;
    for (const double value : values) sum += value;
    summaries.push_back({.slices = key.first,
                         .action = key.second,
                         .runs = static_cast<std::int64_t>(values.size()),
                         .mean_ms = sum / static_cast<double>(values.size()),
                         .p50_ms = quantile(values, 0.5),
                         .p99_ms = quantile(values, 0.99),
                         .max_ms = values.back()});
  }
  return write_table(summaries);
}

}  // namespace tangram::formats::importers
