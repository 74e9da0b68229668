// Writes arguments for Slurm's programs and reads what they print.
#include "adapters/slurm/slurm_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.h"

namespace tangram::adapters {
namespace {

// Of what squeue prints: job, task, state, reason, node, time left, time run, excluded nodes, comment. The comment is
// the last, so that a "|" in it cannot shift a field.
constexpr const char* kSqueueFormat = "%F|%K|%T|%r|%N|%L|%M|%x|%k";
constexpr std::size_t kSqueueFields = 9;

std::string comment_of(const SlurmJob& job, std::string_view kind) {
  return fmt::format("tangram:{}:{}", job.name, kind);
}

// In single quotes for the shell.
std::string shell_word(std::string_view word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

// A `|` of the comment stays in the last field.
std::vector<std::string_view> fields_of(std::string_view line, std::size_t count) {
  std::vector<std::string_view> fields;
  while (fields.size() + 1 < count) {
    const auto end = line.find('|');
    if (end == std::string_view::npos) break;
    fields.push_back(line.substr(0, end));
    line.remove_prefix(end + 1);
  }
  fields.push_back(line);
  return fields;
}

// Names between commas, but for commas in brackets: "n[1,3],m2" are two.
std::set<std::string> names_between_commas(std::string_view text) {
  std::set<std::string> names;
  std::string name;
  int depth = 0;
  const auto take = [&] {
    if (!name.empty() && name != "(null)" && name != "N/A") names.insert(name);
    name.clear();
  };
  for (const char c : text) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c == ',' && depth == 0) {
      take();
    } else {
      name += c;
    }
  }
  take();
  return names;
}

SlurmState state_of(std::string_view text) {
  if (text == "PENDING" || text == "REQUEUED" || text == "REQUEUE_HOLD" || text == "CONFIGURING") {
    return SlurmState::pending;
  }
  // A suspended task holds its slice, and comes back.
  if (text == "RUNNING" || text == "SUSPENDED" || text == "RESIZING") return SlurmState::running;
  return SlurmState::ending;
}

struct Reason {
  std::string_view name;
  bool final;
  std::string_view meaning;
};
constexpr std::array kReasons{
    Reason{"Resources", false, "every slice of this kind is taken"},
    Reason{"Priority", false, "other jobs go first"},
    Reason{"BeginTime", false, "Slurm starts it again after a pause"},
    Reason{"Dependency", false, "it waits for another job"},
    Reason{"ReqNodeNotAvail", false, "the only nodes that could run it are down, drained or reserved"},
    Reason{"QOSMaxJobsPerUserLimit", false, "your QOS allows no more jobs at once"},
    Reason{"QOSMaxGRESPerUser", false, "your QOS allows no more of this resource at once"},
    Reason{"QOSGrpGRES", false, "the QOS has no more of this resource to give"},
    Reason{"AssocGrpGRES", false, "the account has no more of this resource to give"},
    Reason{"AssocMaxJobsLimit", false, "the account allows no more jobs at once"},
    Reason{"JobHeldUser", true, "it is held; release it with scontrol release"},
    Reason{"JobHeldAdmin", true, "an administrator holds it"},
    Reason{"BadConstraints", true, "no node can ever run it; check the kind of slice, the partition and --cpus"},
    Reason{"PartitionTimeLimit", true, "--time is longer than the partition allows"},
    Reason{"PartitionNodeLimit", true, "the partition has no such nodes"},
    Reason{"PartitionDown", false, "the partition is down"},
    Reason{"InvalidAccount", true, "the account does not exist; check --account"},
    Reason{"InvalidQOS", true, "the QOS does not exist; check --qos"},
    Reason{"AccountNotAllowed", true, "the account may not use this partition"},
};

const Reason* find_reason(std::string_view name) {
  // Slurm adds details: "ReqNodeNotAvail, UnavailableNodes:n2".
  name = name.substr(0, name.find(','));
  const auto* const found = std::ranges::find(kReasons, name, &Reason::name);
  return found == kReasons.end() ? nullptr : found;
}

}  // namespace

Result<std::vector<SlurmKind>> slurm_kinds(const Plan& plan, const std::map<std::string, std::string>& boards) {
  std::vector<SlurmKind> kinds;
  for (const auto& device : plan.devices) {
    const auto board = boards.find(device.type);
    for (const auto& planned : device.slices) {
      if (planned.reserved) continue;
      const MigProfile& profile = device.geometry.profiles[planned.slice.profile];
      SlurmKind kind;
      kind.name = board == boards.end() ? profile.name : board->second + "_" + profile.name;
      if (device.geometry.units_per_core > 0) {
        kind.cores = (profile.units + device.geometry.units_per_core - 1) / device.geometry.units_per_core;
      } else {
        // A type that begins with a digit needs its count.
        kind.gres = fmt::format("gpu:{}:1", kind.name);
      }
      auto same = std::ranges::find(kinds, kind.name, &SlurmKind::name);
      if (same == kinds.end()) same = kinds.insert(same, kind);
      ++same->wanted;
    }
  }
  if (kinds.empty()) return invalid_input("the plan has no slice, so Slurm has nothing to run");
  return kinds;
}

std::string slurm_job_name(const SlurmJob& job) { return "tangram-" + job.name; }

bool is_slurm_name(std::string_view name) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  return !name.empty() && name.size() <= 64 && letter(name.front()) &&
         std::ranges::all_of(name, [&](char c) { return letter(c) || c == '.' || c == '-' || c == '_'; });
}

std::vector<std::string> sbatch_arguments(const SlurmJob& job, const SlurmKind& kind, int count,
                                          const std::set<std::string>& exclude) {
  TANGRAM_CHECK(count >= 1 && count <= kSlurmTasksPerJobMax, "a job has tasks, and Slurm limits how many");
  std::vector<std::string> words{"sbatch", "--parsable", "--no-requeue", "--nodes=1", "--ntasks=1"};
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) words.push_back(fmt::format("--{}={}", option, value));
  };
  add("array", fmt::format("0-{}", count - 1));
  add("job-name", slurm_job_name(job));
  add("comment", comment_of(job, kind.name));
  add("partition", job.partition);
  add("account", job.account);
  add("qos", job.qos);
  add("time", job.time_limit);
  add("gres", kind.gres);
  add("cpus-per-task", fmt::format("{}", kind.cores > 0 ? kind.cores : job.cpus));
  if (job.memory_mb > 0) add("mem", fmt::format("{}M", job.memory_mb));
  // B: only the batch shell, which the command has replaced.
  add("signal", fmt::format("B:TERM@{}", std::max<std::int64_t>(1, job.warning / std::chrono::seconds(1))));
  // The caller's environment may hold secrets, and every task's is shown by `scontrol show job`.
  add("export", "PATH,HOME,LANG");
  add("output", job.log_folder.empty() ? "/dev/null"
                                       : fmt::format("{}/{}-%A_%a.log", job.log_folder, slurm_job_name(job)));
  std::vector<std::string> excluded(exclude.begin(), exclude.end());
  add("exclude", text::join(excluded, ","));
  words.insert(words.end(), job.sbatch.begin(), job.sbatch.end());
  return words;
}

std::string sbatch_script(const SlurmJob& job, const SlurmKind& kind) {
  std::string script = "#!/bin/bash\n# One slice of a Tangram plan. Ends within seconds of SIGTERM.\n";
  script += fmt::format("export TANGRAM_SLURM_KIND={}\n", shell_word(kind.name));
  script += fmt::format("export TANGRAM_NODE_NAME={}-\"${{SLURM_ARRAY_JOB_ID}}_${{SLURM_ARRAY_TASK_ID}}\"\n",
                        shell_word(job.name));
  script += "exec";
  for (const auto& word : job.command) {
    // The one word that only the task knows.
    script += word == "{name}" ? " \"$TANGRAM_NODE_NAME\"" : " " + shell_word(word);
  }
  return script + "\n";
}

Result<std::string> read_sbatch(std::string_view output) {
  const std::string_view line = text::trim(output);
  const std::string_view number = line.substr(0, line.find(';'));
  if (!text::parse_integer(number)) {
    return Error{ErrorCode::unavailable,
                 fmt::format("sbatch: expected the number of a job, found \"{}\"", line.substr(0, 80))};
  }
  return std::string(number);
}

std::vector<std::string> squeue_arguments(const SlurmJob& job) {
  return {"squeue", "--noheader", "--array", "--me", "--name=" + slurm_job_name(job),
          std::string("--format=") + kSqueueFormat};
}

Result<std::vector<SlurmTask>> read_squeue(std::string_view output, const SlurmJob& job) {
  std::vector<SlurmTask> tasks;
  const std::string prefix = comment_of(job, "");
  for (const auto line : text::split(output, '\n')) {
    if (text::trim(line).empty()) continue;
    const auto fields = fields_of(line, kSqueueFields);
    if (fields.size() != kSqueueFields) {
      return Error{ErrorCode::unavailable,
                   fmt::format("squeue: expected {} fields, found \"{}\"", kSqueueFields, line.substr(0, 120))};
    }
    if (!fields[8].starts_with(prefix)) continue;
    SlurmTask task;
    // A job that is no array has "N/A" for its task.
    const bool array = text::parse_integer(fields[1]).has_value();
    task.id = array ? fmt::format("{}_{}", fields[0], fields[1]) : std::string(fields[0]);
    task.kind = text::trim(fields[8].substr(prefix.size()));
    task.state = state_of(fields[2]);
    if (task.state == SlurmState::pending) task.reason = fields[3];
    task.node = fields[4];
    task.time_left = read_slurm_time(fields[5]);
    task.ran = read_slurm_time(fields[6]).value_or(Duration::zero());
    task.excluded = names_between_commas(fields[7]);
    tasks.push_back(std::move(task));
  }
  return tasks;
}

// [D-]HH:MM:SS, MM:SS or M. Squeue prints at least MM:SS.
std::optional<Duration> read_slurm_time(std::string_view text) {
  std::int64_t days = 0;
  const auto dash = text.find('-');
  if (dash != std::string_view::npos) {
    const auto read = text::parse_integer(text.substr(0, dash));
    if (!read || *read < 0 || *read > 100'000) return std::nullopt;
    days = *read;
    text.remove_prefix(dash + 1);
  }
  std::vector<std::int64_t> parts;
  for (const auto part : text::split(text, ':')) {
    const auto read = text::parse_integer(part);
    if (!read || *read < 0 || *read > 10'000'000) return std::nullopt;
    parts.push_back(*read);
  }
  if (parts.size() > 3) return std::nullopt;
  std::int64_t seconds = 0;
  if (parts.size() == 1) {
    seconds = dash == std::string_view::npos ? parts[0] * 60 : parts[0] * 3600;
  } else {
    // "1-02:03" are hours and minutes, "02:03" minutes and seconds.
    if (dash != std::string_view::npos && parts.size() == 2) parts.push_back(0);
    for (const auto part : parts) seconds = seconds * 60 + part;
  }
  return std::chrono::seconds(days * 86'400 + seconds);
}

std::vector<std::string> sinfo_arguments(const std::set<std::string>& nodes) {
  const std::vector<std::string> names(nodes.begin(), nodes.end());
  return {"sinfo", "--noheader", "--Node", "--nodes=" + text::join(names, ","), "--format=%N|%T"};
}

Result<std::map<std::string, SlurmNodeHealth>> read_sinfo(std::string_view output) {
  std::map<std::string, SlurmNodeHealth> nodes;
  for (const auto line : text::split(output, '\n')) {
    if (text::trim(line).empty()) continue;
    const auto fields = fields_of(line, 2);
    if (fields.size() != 2) {
      return Error{ErrorCode::unavailable, fmt::format("sinfo: expected NODE|STATE, found \"{}\"", line.substr(0, 80))};
    }
    const std::string state = text::lower(text::trim(fields[1]));
    const bool drain = state.starts_with("drain") || state.starts_with("drng");
    // A star: the node does not answer.
    const bool bad = state.ends_with('*') || state.starts_with("down") || state.starts_with("fail") ||
                     state.starts_with("error") || state.starts_with("unknown");
    // A node is listed once for each of its partitions.
    nodes[std::string(text::trim(fields[0]))] = bad     ? SlurmNodeHealth::bad
                                                : drain ? SlurmNodeHealth::leaving
                                                        : SlurmNodeHealth::good;
  }
  return nodes;
}

std::string_view slurm_reason_meaning(std::string_view reason) {
  const Reason* found = find_reason(reason);
  return found == nullptr ? std::string_view{} : found->meaning;
}

bool slurm_reason_is_final(std::string_view reason) {
  const Reason* found = find_reason(reason);
  return found != nullptr && found->final;
}

}  // namespace tangram::adapters
