// Asks the admin port of a server for its training jobs. The answers are its JSON, unchanged, or a text for people.

#include "cli/training_jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "cli/inputs.h"
#include "formats/training_job.h"
#include "host/files.h"

namespace tangram::cli {
namespace {

namespace fs = std::filesystem;
constexpr auto kLogsEvery = std::chrono::milliseconds(300);

// The server has understood and refuses: exit code 1.
struct TrainingAnswer {
  report::Json json;
  std::string refusal;
};

Result<TrainingAnswer> ask_training(const ServerOptions& server, const std::string& method, const std::string& path,
                                    const std::string& body = "") {
  int status = 0;
  const auto answer = ask_server(server, method, path, body, &status);
  if (!answer && status == 400) return TrainingAnswer{{}, answer.error().message};
  if (!answer) return answer.error();
  auto json = report::Json::parse(*answer, nullptr, false);
  if (!json.is_object()) {
    return Error{ErrorCode::unavailable, "this is not the metrics port of a Tangram server"};
  }
  return TrainingAnswer{std::move(json), {}};
}

std::string time_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds);
  if (whole < 120) return fmt::format("{} s", whole);
  if (whole < 7200) return fmt::format("{} min", whole / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

std::string progress_text(const report::Json& job) {
  std::string text = fmt::format("step {}", job.at("step").get<std::int64_t>());
  if (const auto& steps = job.at("steps"); !steps.is_null()) text += fmt::format(" of {}", steps.get<std::int64_t>());
  if (const auto& left = job.at("left_s"); !left.is_null()) text += ", " + time_text(left.get<double>()) + " left";
  return text;
}

std::string list_text(const report::Json& jobs) {
  if (jobs.empty()) return "no training jobs\n";
  std::string out = fmt::format("{:<24} {:<10} {:>6} {:>10} {:>5}  {}\n", "NAME", "STATE", "SLICES", "GENERATION",
                                "LOST", "PROGRESS");
  for (const auto& job : jobs) {
    out += fmt::format("{:<24} {:<10} {:>6} {:>10} {:>5}  {}\n", job.at("name").get<std::string>(),
                       job.at("state").get<std::string>(), job.at("slices").size(),
                       job.at("generation").get<std::uint64_t>(), job.at("steps_lost").get<std::int64_t>(),
                       progress_text(job));
  }
  return out;
}

// The losses as a row of eight heights, the highest at the top.
std::string curve_of(const report::Json& losses) {
  constexpr std::size_t kWidth = 60;
  constexpr const char* kHeights[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::vector<double> values;
  for (const auto& point : losses) {
    if (point.at(1).is_number()) values.push_back(point.at(1).get<double>());
  }
  if (values.size() < 2) return {};
  const auto [low, high] = std::ranges::minmax(values);
  std::string curve;
  const std::size_t width = std::min(kWidth, values.size());
  for (std::size_t i = 0; i < width; ++i) {
    const double value = values[i * values.size() / width];
    const double height = high > low ? (value - low) / (high - low) * 7 : 0;
    curve += kHeights[std::clamp(static_cast<int>(height + 0.5), 0, 7)];
  }
  return fmt::format("loss     {}  {:.4g} to {:.4g}, now {:.4g}\n", curve, high, low, values.back());
}

std::string show_text(const report::Json& job) {
  const auto words = [&](const char* key) { return job.at(key).get<std::string>(); };
  std::string slices;
  for (const auto& slice : job.at("slices")) slices += (slices.empty() ? "" : ", ") + slice.get<std::string>();
  std::string out = fmt::format("{} is {}, {}\n", words("name"), words("state"), progress_text(job));
  out += fmt::format("slices   {} ({} to {})\n", slices.empty() ? "none" : slices, job.at("slices_min").get<int>(),
                     job.at("slices_max").get<int>());
  out += fmt::format("steps    {:.1f} ms each, {} lost, {} made again, {} generations\n",
                     job.at("step_ms").get<double>(), job.at("steps_lost").get<std::int64_t>(),
                     job.at("steps_repeated").get<std::int64_t>(), job.at("generation").get<std::uint64_t>());
  out += curve_of(job.at("losses"));
  if (const auto& crc = job.at("parameters_crc"); !crc.is_null()) out += "crc      " + crc.get<std::string>() + "\n";
  if (const auto problem = words("problem"); !problem.empty()) out += "problem  " + problem + "\n";
  return out;
}

// What is sent: the file with its folder, where the command runs.
Result<std::string> job_to_submit(const std::string& path) {
  TANGRAM_TRY(const auto source, read_source(path));
  TANGRAM_TRY(auto job, formats::parse_training_job(source));
  const fs::path beside = fs::absolute(path).parent_path();
  job.directory = (beside / job.directory).lexically_normal().string();
  if (job.elastic()) {
    const fs::path script = fs::path(job.directory) / job.command[1];
    if (std::error_code error; !fs::is_regular_file(script, error)) {
      return Error{ErrorCode::not_found,
                   fmt::format("{}: command names {}, which is not there", path, script.string())};
    }
  }
  return formats::write_training_job(job);
}

// A server without access control takes jobs from those who can read its key.
Result<std::string> submission_key(const ServerOptions& server) {
  TANGRAM_TRY(const auto answer, ask_training(server, "GET", "/training"));
  if (!answer.refusal.empty()) return std::string();
  const auto key = host::read_file(answer.json.at("folder").get<std::string>() + "/submit.key");
  return key ? "# key: " + *key + "\n" : std::string();
}

Result<ExitCode> print_logs(Session& session, const ServerOptions& server, const TrainingJobsQuestion& question) {
  std::int64_t offset = 0;
  while (true) {
    TANGRAM_TRY(const auto answer,
                ask_training(server, "GET", fmt::format("/training/{}/logs/{}", question.target, offset)));
    if (!answer.refusal.empty()) {
      session.note(answer.refusal);
      return ExitCode::answer_is_no;
    }
    const auto text = answer.json.at("text").get<std::string>();
    session.print(text);
    offset = answer.json.at("next").get<std::int64_t>();
    if (!text.empty()) continue;
    if (!question.follows || answer.json.at("ended").get<bool>()) return ExitCode::done;
    std::this_thread::sleep_for(kLogsEvery);
  }
}

}  // namespace

bool asks_for_training_jobs(const std::string& action) { return action != "run" && action != "rehearse"; }

Result<ExitCode> ask_for_training_jobs(Session& session, const ServerOptions& server,
                                       const TrainingJobsQuestion& question) {
  const std::string& action = question.action;
  if ((action == "list") != question.target.empty()) {
    return session.fail({ErrorCode::invalid, action == "list"     ? "list takes no name: try show"
                                             : action == "submit" ? "submit needs the file of a job"
                                                                  : action + " needs the name of a job"});
  }
  if (action == "logs") return print_logs(session, server, question);
  std::string body;
  if (action == "submit") {
    TANGRAM_TRY(body, job_to_submit(question.target));
  }
  const bool changes = action == "submit" || action == "cancel";
  if (changes) {
    TANGRAM_TRY(const auto key, submission_key(server));
    body = key + body;
  }
  const std::string path = action == "list" || action == "submit" ? "/training"
                           : action == "cancel"                   ? "/training/" + question.target + "/cancel"
                                                                  : "/training/" + question.target;
  TANGRAM_TRY(const auto answer, ask_training(server, changes ? "POST" : "GET", path, body));
  if (!answer.refusal.empty()) {
    session.note(answer.refusal);
    return ExitCode::answer_is_no;
  }
  if (session.structured()) {
    session.print_value(action == "list" ? answer.json.at("jobs") : answer.json);
  } else if (action == "list") {
    session.print(list_text(answer.json.at("jobs")));
  } else if (action == "show") {
    session.print(show_text(answer.json));
  } else {
    session.print(fmt::format("{} is {}\n", answer.json.at("name").get<std::string>(),
                              answer.json.at("state").get<std::string>()));
  }
  return ExitCode::done;
}

}  // namespace tangram::cli
