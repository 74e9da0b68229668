// Lengths of the texts of several corpora, in words. One corpus becomes one histogram of input sizes.

#include <map>

#include "formats/detail/limits.h"
#include "formats/importers/importers.h"
#include "formats/trace_file.h"

namespace tangram::formats::importers {
namespace {

struct Row {
  std::string corpus;
  std::int64_t words = 0;
  std::int64_t count = 0;
};

template <typename Visitor>
void describe(Visitor& v, Row& c) {
  v.field("corpus", c.corpus, {.required = true}, "");
  v.field("words", c.words, {.min = 0, .max = kSizeMax, .required = true}, "");
  v.field("count", c.count, {.min = 0, .max = 1e12, .required = true}, "");
}

}  // namespace

Result<std::string> text_lengths(const Files& files, std::string_view selection) {
  std::set<std::string> corpora;
  std::map<std::string, std::map<std::int64_t, double>> weights;
  const auto problems = for_each_row_of<Row>(files, [&](Row row, const RowPlace&, Problems&, const Source&) {
    corpora.insert(row.corpus);
    // An empty text is an input of the smallest size, 1. A count of 0 gives no bin, because weights are positive.
    if (row.count > 0) weights[row.corpus][std::max<std::int64_t>(1, row.words)] += static_cast<double>(row.count);
  });
  if (!problems.empty()) return problems.error();
  if (weights.empty()) return no_rows(files);
  const auto chosen = selection.empty() ? weights.begin() : weights.find(std::string(selection));
  // Corpora are never mixed silently: with several, one must be selected.
  if (chosen == weights.end() || (selection.empty() && corpora.size() > 1))
    return unknown_selection("text-lengths", selection, corpora);
  std::vector<HistogramSize::Bin> histogram;
  for (const auto& [size, weight] : chosen->second) histogram.push_back({size, weight});
  return write_histogram(histogram);
}

}  // namespace tangram::formats::importers
