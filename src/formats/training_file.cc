// The training file: timed steps and gradient statistics of training applications, in one table.
//
// Three kinds of rows share the columns; those that a kind does not use are blank.

#include "formats/training_file.h"

#include "formats/detail/limits.h"
#include "formats/detail/shapes.h"
#include "formats/table.h"

namespace tangram::formats {

template <typename Visitor>
void describe(Visitor& v, TrainingRowKind& kind) {
  v.name("placement", kind, TrainingRowKind::placement, "A step timed in one placement of workers on nodes.");
  v.name("scalability", kind, TrainingRowKind::scalability, "A step timed with a number of workers.");
  v.name("validation", kind, TrainingRowKind::validation, "The state of training after some iterations.");
}

template <typename Visitor>
void describe(Visitor& v, TrainingRow& c) {
  v.about("Training", "One row per timed step, or per measurement of the gradients, of a training application.");
  v.field("application", c.application, {.required = true}, "The application that was trained.");
  v.field("kind", c.kind, {.required = true}, "The kind of the row.");
  v.field("nodes", c.nodes, {.min = 1, .max = 1e6}, "For a step: the number of nodes it ran on.");
  v.field("replicas", c.replicas, {.min = 1, .max = 1e6}, "For a step: the number of workers on all nodes together.");
  v.field("local_batch", c.local_batch, {.min = 1, .max = 1e9}, "For a step: the batch size of one worker.");
  v.field("step_s", c.step_s, {.max = kSecondsMax, .above = 0}, "For a step: its time.");
  v.field("sync_s", c.sync_s, {.min = 0, .max = kSecondsMax}, "For a step: the time spent synchronising.");
  v.field("batch", c.batch, {.min = 1, .max = 1e9}, "For a validation: the batch size over all workers.");
  v.field("progress", c.progress, {.min = 0},
          "For a validation: the samples trained on, weighted by their statistical efficiency.");
  v.field("iteration", c.iteration, {.min = 0}, "For a validation: the number of steps done.");
  v.field("metric", c.metric, "For a validation: the quality metric of the model.");
  v.field("grad_sqr", c.grad_sqr, "For a validation: the squared norm of the gradient.");
  v.field("grad_var", c.grad_var, "For a validation: the variance of the gradient.");
  v.field("placement", c.placement, "For a step: the workers on each node, a digit from 1 to 9 for each: 12.");
  // All fields but two are optional, because three kinds of rows share one table. The rules say which kind needs which.
  const bool validation = c.kind == TrainingRowKind::validation;
  v.rule(validation || (c.nodes && c.replicas && c.local_batch && c.step_s && c.sync_s),
         {"kind", "nodes", "replicas", "local_batch", "step_s", "sync_s"},
         "a timed step needs nodes, replicas, local_batch, step_s and sync_s");
  v.rule(!c.placement || c.placement->find_first_not_of("123456789") == std::string::npos, {"placement"},
         "a placement is a digit from 1 to 9 for each node");
  v.rule(!validation || (c.batch && c.progress && c.iteration && c.metric && c.grad_sqr && c.grad_var),
         {"kind", "batch", "progress", "iteration", "metric", "grad_sqr", "grad_var"},
         "a validation needs batch, progress, iteration, metric, grad_sqr and grad_var");
}

Result<std::vector<TrainingRow>> parse_training(const Source& source) {
  Problems problems(source.name);
  std::vector<TrainingRow> rows;
  for_each_row<TrainingRow>(source, Header::strict, problems,
                            [&](TrainingRow row, const RowPlace&) { rows.push_back(std::move(row)); });
  if (!problems.empty()) return problems.error();
  return rows;
}

std::string write_training(const std::vector<TrainingRow>& rows) { return write_table(rows); }

Shape training_shape() { return shape_of<TrainingRow>(); }

}  // namespace tangram::formats
