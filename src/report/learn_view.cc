// Fitted models as tables and JSON.
//
// The overview has one line for each model and the details one table for each; both show errors on unseen runs only. A
// model with a single run cannot be checked, which is "unknown" in text and null in JSON, never an error of zero.

#include "report/learn_view.h"

#include <fmt/format.h>

#include "report/table.h"

namespace tangram::report {
namespace {

// One digit at every size. The format of shares has more digits near 100 %, which mean nothing for an error.
std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

// Size and processes are left out where they are 1, as they are for most models.
std::string candidate_text(const learn::Candidate& c) {
  std::string text = fmt::format("{} batch {}", c.mig_profile, c.batch);
  if (c.size != 1) text += fmt::format(" size {}", c.size);
  if (c.processes != 1) text += fmt::format(" processes {}", c.processes);
  return text;
}

Json group_json(const std::vector<ErrorGroup>& groups) {
  Json list = Json::array();
  for (const auto& group : groups) {
    list.push_back({{"name", group.name},
                    {"runs", group.runs},
                    {"median_error", group.median_error},
                    {"p90_error", group.p90_error},
                    {"bias", group.bias}});
  }
  return list;
}

// `members` names the parts of the ensemble that answer; `intervals` says where their width comes from.
Json report_json(const LearnReport& report) {
  Json json{{"model", report.model},
            {"device", report.device},
            {"measurements", report.measurements},
            {"out_of_memory", report.out_of_memory},
            {"members", report.members},
            {"intervals", calibration_text(report.calibration)},
            {"coverage_stated", report.coverage_stated},
            {"checked", report.unseen.size()},
            {"median_error", report.unseen.empty() ? Json(nullptr) : Json(report.median_error)},
            {"p90_error", report.unseen.empty() ? Json(nullptr) : Json(report.p90_error)},
            {"coverage", report.unseen.empty() ? Json(nullptr) : Json(report.coverage)},
            {"by_slice", group_json(report.by_slice)},
            {"by_batch", group_json(report.by_batch)},
            {"by_size", group_json(report.by_size)},
            {"by_processes", group_json(report.by_processes)}};
  Json validation = Json::array();
  for (const auto& v : report.validation) {
    validation.push_back({{"member", v.member}, {"median_error", v.median_error}, {"p90_error", v.p90_error}});
  }
  json["validation"] = std::move(validation);
  // The key is always present; null means that there is nothing to propose, and next_reason says why.
  json["next"] = nullptr;
  if (report.next) {
    json["next"] = {{"mig_profile", report.next->mig_profile},
                    {"batch", report.next->batch},
                    {"size", report.next->size},
                    {"processes", report.next->processes}};
  }
  json["next_reason"] = report.next_reason;
  return json;
}

// A single group would repeat the overview.
void add_groups(Table& table, std::string_view what, const std::vector<ErrorGroup>& groups) {
  if (groups.size() < 2) return;
  for (const auto& group : groups) {
    table.add({fmt::format("{} {}", what, group.name), fmt::format("{}", group.runs), percent(group.median_error),
               percent(group.p90_error), fmt::format("{:+.1f} %", 100 * group.bias)});
  }
}

}  // namespace

std::string learn_overview(const std::vector<LearnReport>& reports, const Terminal& terminal) {
  Table table({{"MODEL"},
               {"DEVICE"},
               {"RUNS", Align::right},
               {"MEDIAN ERROR", Align::right},
               {"P90 ERROR", Align::right},
               {"COVERED", Align::right},
               {"INTERVALS"},
               {"WOULD MEASURE NEXT"}});
  for (const auto& report : reports) {
    // Only errors on unseen runs say anything about the model.
    const bool checked = !report.unseen.empty();
    table.add({{report.model, Style::accent},
               report.device,
               fmt::format("{}", report.measurements),
               checked ? percent(report.median_error) : "unknown",
               checked ? percent(report.p90_error) : "unknown",
               checked ? percent(report.coverage) : "unknown",
               calibration_text(report.calibration),
               report.next ? candidate_text(*report.next) : report.next_reason});
  }
  return table.render(terminal);
}

// Where the model is weak: errors by slice, batch, size and processes. A bias has a sign; errors do not.
std::string learn_details(const LearnReport& report, const Terminal& terminal) {
  Table table({{"WHERE"},
               {"RUNS", Align::right},
               {"MEDIAN ERROR", Align::right},
               {"P90 ERROR", Align::right},
               {"BIAS", Align::right}});
  add_groups(table, "slice", report.by_slice);
  add_groups(table, "batch", report.by_batch);
  add_groups(table, "size", report.by_size);
  add_groups(table, "processes", report.by_processes);
  if (table.empty()) return "";
  return fmt::format("\n{} on {}, each run predicted from all others\n\n", report.model, report.device) +
         table.render(terminal);
}

Json learn_json(const std::vector<LearnReport>& reports) {
  Json list = Json::array();
  for (const auto& report : reports) list.push_back(report_json(report));
  return {{"models", std::move(list)}};
}

}  // namespace tangram::report
