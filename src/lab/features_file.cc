// A CSV file with what is known about networks without running them. Both features are optional: a fit uses those that
// are there.

#include "lab/features_file.h"

#include "formats/table.h"

namespace tangram::lab {
namespace {

struct Row {
  std::string model;
  std::optional<double> parameters;
  std::optional<double> flops_per_sample;
  // FLOPs grow with the input, so they are meaningless without the size that they were counted for.
  double size = 1;
};

template <typename Visitor>
void describe(Visitor& v, Row& c) {
  v.about("Features", "Facts about a network that need no measurement.");
  v.field("model", c.model, {.required = true}, "The model, as in the measurements.");
  v.field("parameters", c.parameters, {.max = 1e18, .above = 0}, "The number of trainable weights.");
  v.field("flops_per_sample", c.flops_per_sample, {.max = 1e24, .above = 0}, "The FLOPs of one sample of `size`.");
  v.field("size", c.size, {.min = 1, .max = 1e9}, "The input size to which the FLOPs refer.");
}

}  // namespace

Result<std::vector<learn::ModelFeatures>> parse_features(const formats::Source& source) {
  formats::Problems problems(source.name);
  std::vector<learn::ModelFeatures> features;
  formats::for_each_row<Row>(source, formats::Header::strict, problems, [&](Row row, const formats::RowPlace&) {
    features.push_back({std::move(row.model), row.parameters, row.flops_per_sample, row.size});
  });
  if (!problems.empty()) return problems.error();
  return features;
}

}  // namespace tangram::lab
