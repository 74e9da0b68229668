// Addresses, answers and metrics of training jobs.

#include "serve/training_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/statistics.h"
#include "base/text.h"
#include "serve/tally.h"
#include "serve/training_desk.h"

namespace tangram::serve {
namespace {

using CommandJson = nlohmann::json;

Target refuse_training(int status, std::string message) {
  Target target;
  target.refusal = Reply{status, kJsonType, CommandJson{{"error", std::move(message)}}.dump()};
  return target;
}

std::string dump(const CommandJson& value) { return value.dump(-1, ' ', false, CommandJson::error_handler_t::replace); }

Reply error_reply(const Error& error) {
  // Clients take 404 for another server at the port.
  const int status = error.code == ErrorCode::not_found || error.code == ErrorCode::invalid ? 400 : 503;
  return {status, kJsonType, dump({{"error", error.message}})};
}

CommandJson number_or_null(std::optional<double> value) { return value ? CommandJson(*value) : CommandJson(nullptr); }

CommandJson json_of(const TrainingView& view) {
  const TrainingProgress& progress = view.progress;
  CommandJson crc = nullptr;
  if (!progress.parameters_crc.empty()) crc = progress.parameters_crc;
  CommandJson step_ms_with = CommandJson::object();
  for (std::size_t n = 1; n <= progress.step_s_with.size(); ++n) {
    if (progress.step_s_with[n - 1] > 0) step_ms_with[fmt::to_string(n)] = progress.step_s_with[n - 1] * 1e3;
  }
  CommandJson steps = nullptr;
  if (view.job.steps) steps = *view.job.steps;
  return {{"name", view.job.name},
          {"state", to_string(view.state)},
          {"step", progress.step},
          {"steps", steps},
          {"generation", progress.generation},
          {"slices", view.slices},
          {"trainers", progress.members},
          {"steps_lost", progress.steps_lost},
          {"steps_repeated", progress.steps_repeated},
          {"parameters_crc", crc},
          {"step_ms", progress.step_s * 1e3},
          {"step_ms_with", step_ms_with},
          {"left_s", number_or_null(view.left_s)},
          {"slice_seconds", view.attained_s},
          {"submitted_s", view.submitted_s},
          {"priority", view.job.priority},
          {"problem", progress.problem}};
}

CommandJson details_of(const TrainingView& view) {
  CommandJson json = json_of(view);
  json["command"] = view.job.command;
  json["directory"] = view.job.directory;
  json["logical_workers"] = view.job.logical_workers;
  json["slices_min"] = view.job.slices.min;
  json["slices_max"] = view.job.slices.max;
  CommandJson losses = CommandJson::array();
  for (const auto& point : view.progress.losses) losses.push_back({point.step, point.loss});
  json["losses"] = losses;
  return json;
}

Reply reply_with(const Result<TrainingView>& view) {
  return view ? Reply{200, kJsonType, dump(details_of(*view))} : error_reply(view.error());
}

}  // namespace

Target route_training(host::HttpMethod method, std::string_view rest) {
  const bool reads = method == host::HttpMethod::get || method == host::HttpMethod::head;
  if (!reads && method != host::HttpMethod::post) return refuse_training(405, "this address accepts GET and POST");
  if (rest.empty()) return {reads ? Endpoint::training : Endpoint::training_command, nullptr, {}, {}, {}};
  if (rest.front() != '/') return refuse_training(404, "unknown path");
  rest.remove_prefix(1);
  const auto slash = std::min(rest.find('/'), rest.size());
  const std::string_view after = rest.substr(slash);
  // Names of jobs need no escapes.
  Target target{Endpoint::training, nullptr, {}, {}, std::string(rest)};
  if (reads && (after.empty() || after == "/logs" || after.starts_with("/logs/"))) return target;
  if (!reads && after == "/cancel") {
    target.endpoint = Endpoint::training_command;
    return target;
  }
  return refuse_training(404, "unknown path");
}

Reply answer_training(TrainingDesk* desk, bool known, const Target& target, std::string_view body) {
  if (desk == nullptr) {
    return error_reply({ErrorCode::invalid, "this server does not train: start it with --training DIR"});
  }
  const std::string_view path = target.device;
  const auto slash = std::min(path.find('/'), path.size());
  const std::string name(path.substr(0, slash));
  const std::string_view after = path.substr(slash);
  if (target.endpoint == Endpoint::training_command) {
    if (!known && !body.starts_with("# key: " + desk->store().key() + "\n")) {
      return {
          403, kJsonType,
          dump({{"error", fmt::format("this server has no access control, so only its own user may submit and cancel "
                                      "jobs: {}/submit.key must be readable",
                                      desk->store().folder())}})};
    }
    return reply_with(name.empty() ? desk->submit(body) : desk->cancel(name));
  }
  if (name.empty()) {
    CommandJson jobs = CommandJson::array();
    for (const auto& view : desk->list()) jobs.push_back(json_of(view));
    return {200, kJsonType, dump({{"jobs", jobs}, {"folder", desk->store().folder()}})};
  }
  if (after.empty()) return reply_with(desk->view(name));
  const auto offset = after.size() > 6 ? text::parse_integer(after.substr(6)) : std::optional<std::int64_t>(0);
  if (!offset || *offset < 0) return error_reply({ErrorCode::invalid, "expected /logs/OFFSET"});
  const auto view = desk->view(name);
  const auto log = desk->log_of(name, static_cast<std::uint64_t>(*offset));
  if (!view || !log) return error_reply(view ? log.error() : view.error());
  const bool ended = view->state != TrainingState::queued && view->state != TrainingState::running &&
                     view->state != TrainingState::parked;
  return {200, kJsonType,
          dump({{"text", log->text}, {"next", log->next}, {"ended", ended}})};
}

std::string training_status(const TrainingDesk& desk) {
  const TrainingTotals totals = desk.totals();
  CommandJson jobs;
  for (std::size_t i = 0; i < totals.jobs.size(); ++i) {
    jobs[std::string(to_string(static_cast<TrainingState>(i)))] = totals.jobs[i];
  }
  const auto quantile = [&](double q) {
    return totals.recalls_ms.empty() ? CommandJson(nullptr) : CommandJson(quantile_nearest_rank(totals.recalls_ms, q));
  };
  return dump({{"jobs", jobs},
               {"slices", totals.slices},
               {"steps", totals.steps},
               {"lends", totals.lends},
               {"recalls", totals.recalls},
               {"recall_ms", {{"count", totals.recalls_ms.size()}, {"p50", quantile(0.5)}, {"p99", quantile(0.99)}}}});
}

std::string training_metrics(const TrainingDesk& desk) {
  const TrainingTotals totals = desk.totals();
  PrometheusText out;
  out.family("tangram_training_jobs", "gauge", "Training jobs, by state.");
  for (std::size_t i = 0; i < totals.jobs.size(); ++i) {
    out.sample("tangram_training_jobs", label("state", to_string(static_cast<TrainingState>(i))), totals.jobs[i]);
  }
  const auto one = [&](const char* name, const char* type, const char* help, std::uint64_t value) {
    out.family(name, type, help);
    out.sample(name, "", value);
  };
  one("tangram_training_slices", "gauge", "Slices on which a training job runs.", totals.slices);
  one("tangram_training_lends_total", "counter", "Slices lent to training.", totals.lends);
  one("tangram_training_recalls_total", "counter", "Recalls by inference of slices on which a job ran.",
      totals.recalls);
  one("tangram_training_steps", "gauge", "Steps of all training jobs.", static_cast<std::uint64_t>(totals.steps));
  return out.take();
}

}  // namespace tangram::serve
