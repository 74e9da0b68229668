// The file of one training job.
//
// `command` is a text that is split at blanks, with quotes as a shell has them, or a list of words. No shell runs it,
// so nothing else in it has a meaning.

#include "formats/training_job.h"

#include <fmt/format.h>

#include <optional>
#include <variant>

#include "formats/access_file.h"
#include "formats/describe.h"
#include "formats/detail/shapes.h"

namespace tangram::formats {
namespace {

struct TrainingSlicesRecord {
  int min = 1;
  int max = 1;
  std::vector<std::string> profiles;
};

struct TrainingJobRecord {
  std::string name;
  Located<std::string> command;
  std::optional<std::string> directory;
  int logical_workers = 8;
  int threads = 1;
  TrainingSlicesRecord slices;
  std::optional<std::string> checkpoint;
  double checkpoint_every_s = 60;
  int priority = 0;
  Located<std::optional<std::string>> deadline;
  Located<bool> adaptive;
  std::optional<double> recall_max_ms;
  std::optional<std::int64_t> steps;
};

template <typename Visitor>
void describe(Visitor& v, TrainingSlicesRecord& c) {
  v.about("JobSlices", "On how many slices the job may run.");
  v.field("min", c.min, {.min = 1, .max = 256}, "The job waits until it can have so many.");
  v.field("max", c.max, {.min = 1, .max = 256}, "The most that it is given.");
  v.field("profiles", c.profiles, "The MigProfiles on which it may run; default: any.");
  v.rule(c.min <= c.max, {"min", "max"}, "min is at most max");
}

template <typename Visitor>
void describe(Visitor& v, TrainingJobRecord& c) {
  v.about("TrainingJob", "A job that trains on the slices that inference lends.");
  v.field("name", c.name, {.required = true, .text = TextRule::name}, "The name of the job; unique on a server.");
  v.field(
      "command", c.command, {.required = true},
      "What runs, such as `python3 train.py --epochs 3`. A Python script is trained elastically, as by `tangram train "
      "run`; any other command is started again after each recall and ends with SIGTERM. No shell reads it; quotes "
      "keep words together.");
  v.field("directory", c.directory, "Where it runs; default: the folder of this file.");
  v.field("logical_workers", c.logical_workers, {.min = 1, .max = 256},
          "The world size that the script sees, whoever trains.");
  v.field("threads", c.threads, {.min = 1, .max = 1024}, "Threads of each trainer.");
  v.field("slices", c.slices, "On how many slices it may run.");
  v.field("checkpoint", c.checkpoint, "The file for its state; default: one that the server keeps.");
  v.field("checkpoint_every_s", c.checkpoint_every_s, {.min = 0.01, .max = 1e8},
          "Seconds from one checkpoint to the next. The recall of the last slice makes another.");
  v.field("priority", c.priority, {.min = -1000, .max = 1000}, "Jobs of a higher priority are given slices first.");
  v.field(
      "deadline", c.deadline,
      "When it should be done: `2027-01-31` or `2027-01-31T12:30:00Z`, in UTC. Of jobs of one priority, the earliest "
      "is first.");
  v.field("adaptive", c.adaptive, "Whether the global batch may change. Not supported yet: only false.");
  v.field("recall_max_ms", c.recall_max_ms, {.min = 1, .max = 3'600'000},
          "How long a trainer may take to leave before it is killed; default: two steps as measured, and 250 ms.");
  v.field("steps", c.steps, {.min = 1, .max = 1e15}, "How many steps it makes, to tell the time left.");
}

// The words of a command line. Nothing: a quote is not closed.
std::optional<std::vector<std::string>> split_command(std::string_view text) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = 0;
  for (const char c : text) {
    if (quote == 0 && (c == ' ' || c == '\t')) {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    if (quote == 0 && (c == '"' || c == '\'')) {
      quote = c;
    } else if (c == quote) {
      quote = 0;
    } else {
      words.back() += c;
    }
  }
  if (quote != 0) return std::nullopt;
  return words;
}

std::string joined_command(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) {
    const bool plain = !word.empty() && word.find_first_of(" \t'\"") == std::string::npos;
    const char quote = word.find('\'') == std::string::npos ? '\'' : '"';
    if (!text.empty()) text += ' ';
    text += plain ? word : quote + word + quote;
  }
  return text;
}

}  // namespace

bool TrainingJob::elastic() const {
  if (command.size() < 2) return false;
  const auto& program = command[0];
  const auto file = program.substr(program.rfind('/') + 1);
  return file.starts_with("python") && command[1].ends_with(".py");
}

std::vector<std::string> TrainingJob::script_arguments() const {
  if (!elastic()) return {};
  return {command.begin() + 2, command.end()};
}

Result<TrainingJob> parse_training_job(const Source& source) {
  Problems problems(source.name);
  TrainingJobRecord record;
  if (const auto root = parse_yaml(source, problems)) read_document(*root, problems, record);
  TrainingJob job;
  const auto words = split_command(record.command.value);
  if (!words) problems.add(record.command.at, "command has a quote that is not closed");
  if (words && words->empty() && record.command.at.line != 0 && !record.command.wrong) {
    problems.add(record.command.at, "command names no program");
  }
  if (record.deadline.value) {
    job.deadline = parse_instant(*record.deadline.value);
    if (!job.deadline) {
      problems.add(record.deadline.at, "deadline must be a date like 2027-01-31 or 2027-01-31T12:30:00Z");
    }
  }
  if (record.adaptive.value) {
    problems.add(record.adaptive.at, "adaptive: true is not supported yet: the global batch always stays as it is");
  }
  if (!problems.empty()) return problems.error();
  job.name = record.name;
  job.command = *words;
  job.directory = record.directory.value_or("");
  job.logical_workers = record.logical_workers;
  job.threads = record.threads;
  job.slices = {record.slices.min, record.slices.max, record.slices.profiles};
  job.checkpoint = record.checkpoint.value_or("");
  job.checkpoint_every_s = record.checkpoint_every_s;
  job.priority = record.priority;
  job.recall_max_ms = record.recall_max_ms;
  job.steps = record.steps;
  return job;
}

std::string write_training_job(const TrainingJob& job) {
  TrainingJobRecord record;
  record.name = job.name;
  record.command.value = joined_command(job.command);
  if (!job.directory.empty()) record.directory = job.directory;
  record.logical_workers = job.logical_workers;
  record.threads = job.threads;
  record.slices = {job.slices.min, job.slices.max, job.slices.profiles};
  if (!job.checkpoint.empty()) record.checkpoint = job.checkpoint;
  record.checkpoint_every_s = job.checkpoint_every_s;
  record.priority = job.priority;
  if (job.deadline) record.deadline.value = write_instant(*job.deadline);
  record.adaptive.value = job.adaptive;
  record.recall_max_ms = job.recall_max_ms;
  record.steps = job.steps;
  return to_yaml(write_document(record, Defaults::skip));
}

Shape training_job_shape() { return shape_of<TrainingJobRecord>(); }

}  // namespace tangram::formats
