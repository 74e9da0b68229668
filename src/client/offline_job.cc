#include "client/offline_job.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "client/offline_client.h"
#include "client/offline_pace.h"
#include "client/http_client.h"

namespace tangram::client {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr std::size_t kFilePiece = 256 << 10;
constexpr std::size_t kCommitRows = 256;   // Results in one transaction at most, ...
constexpr Duration kCommitEvery = 100ms;   // ... and how long they wait for it.
constexpr int kRowAttemptsMax = 3;         // Of a row whose batch failed at the server.
constexpr Duration kRowBackoffMin = 50ms;  // While the server refuses or is away, doubled up to ...
constexpr Duration kRowBackoffMax = 5s;
constexpr Duration kJobBreath = 50ms;      // The longest wait without a look around.
constexpr std::size_t kPressedFactor = 4;  // More rows are under way when the deadline is near.
constexpr Duration kReasonEvery = 5s;      // How often a server is asked why nothing moves, ...
constexpr Duration kReasonTimeout = 1s;    // ... and how long it may take to say so.

TimePoint job_steady_now() { return TimePoint(Duration(std::chrono::steady_clock::now().time_since_epoch())); }

std::int64_t job_wall_ms() { return std::chrono::system_clock::now().time_since_epoch() / 1ms; }

Error file_failure(const std::string& path, std::string_view what) {
  const ErrorCode code = errno == ENOENT ? ErrorCode::not_found : ErrorCode::denied;
  return {code, fmt::format("{}: {}: {}", path, what, std::strerror(errno))};
}

// A file descriptor that is closed when it goes.
class OpenFile {
 public:
  OpenFile(const std::string& path, int flags) : descriptor_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {}
  ~OpenFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

// ---- The input ----

// The rows of a file, one after the other.
class RowFile {
 public:
  RowFile(std::string path, RowFormat format)
      : path_(std::move(path)), file_(path_, O_RDONLY), splitter_(format), piece_(kFilePiece, '\0') {}

  // Nothing at the end of the file.
  Result<std::optional<Row>> next() {
    while (true) {
      if (auto row = splitter_.next()) return row;
      if (!splitter_.problem().empty()) {
        return Error{ErrorCode::invalid, fmt::format("{}: {}", path_, splitter_.problem())};
      }
      if (ended_) return std::optional<Row>();
      const ssize_t got = ::read(file_.descriptor(), piece_.data(), piece_.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return file_failure(path_, "cannot be read");
      const std::string_view bytes(piece_.data(), static_cast<std::size_t>(got));
      for (const char c : bytes) digest_ = (digest_ ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;  // FNV-1a
      bytes_ += bytes.size();
      ended_ = got == 0;
      ended_ ? splitter_.end() : splitter_.feed(bytes);
    }
  }
  // Of what was read so far.
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t digest() const { return digest_; }

 private:
  std::string path_;
  OpenFile file_;
  RowSplitter splitter_;
  std::string piece_;
  std::uint64_t bytes_ = 0;
  std::uint64_t digest_ = 0xcbf29ce484222325ULL;
  bool ended_ = false;
};

// ---- The output ----

// A file that takes its name when it is whole and on the disk. Until then it is named after its job, too.
class WholeFile {
 public:
  WholeFile(std::string path, const std::string& job)
      : path_(std::move(path)),
        partial_(path_ + '.' + job + ".partial"),
        file_(partial_, O_WRONLY | O_CREAT | O_TRUNC) {}

  Result<Nothing> append(std::string_view text) {
    buffer_.append(text);
    return buffer_.size() < kFilePiece ? Result<Nothing>(Nothing{}) : flush();
  }

  Result<Nothing> finish() {
    if (auto flushed = flush(); !flushed) return flushed;
    if (::fsync(file_.descriptor()) != 0) return file_failure(partial_, "cannot be written");
    if (::rename(partial_.c_str(), path_.c_str()) != 0) return file_failure(path_, "cannot be written");
    const fs::path parent = fs::path(path_).parent_path();
    const OpenFile folder(parent.empty() ? "." : parent.string(), O_RDONLY | O_DIRECTORY);
    ::fsync(folder.descriptor());
    return Nothing{};
  }

 private:
  Result<Nothing> flush() {
    if (file_.descriptor() < 0) return file_failure(partial_, "cannot be written");
    for (std::string_view rest = buffer_; !rest.empty();) {
      const ssize_t wrote = ::write(file_.descriptor(), rest.data(), rest.size());
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) return file_failure(partial_, "cannot be written");
      rest.remove_prefix(static_cast<std::size_t>(wrote));
    }
    buffer_.clear();
    return Nothing{};
  }

  std::string path_;
  std::string partial_;
  OpenFile file_;
  std::string buffer_;
};

// {"row":7,"model_name":...}: the answer with the number of its row in front, on one line.
std::string answer_line(const RowResult& result) {
  std::string line = fmt::format("{{\"row\":{}", result.number);
  const bool more = result.text.find_first_not_of(" \t\r\n", 1) != result.text.rfind('}');
  if (more) line += ',';
  line.append(result.text, 1);
  // Text between JSON's values may have line ends, strings may not.
  std::ranges::replace_if(
      line, [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return line + '\n';
}

// Reasons quote the input, which may be cut or may not be UTF-8 at all; the line is JSON nevertheless.
std::string failed_line(const RowResult& result) {
  nlohmann::ordered_json line{{"row", result.number}, {"line", result.line}};
  if (!result.id.empty()) line["id"] = result.id;
  line["reason"] = result.text;
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

// Writes what stands in the store. The same store gives the same bytes, so a kill in the middle is mended by doing it
// again.
Result<Nothing> write_output(const JobStore& store, const Job& job) {
  WholeFile answers(job.output, job.id);
  std::optional<WholeFile> failures;
  std::uint64_t expected = 0;
  auto written = store.each_result([&](const RowResult& result) -> Result<Nothing> {
    if (result.number != ++expected)
      return Error{ErrorCode::invalid, fmt::format("{}: row {} is missing", job.id, expected)};
    if (result.ok) return answers.append(answer_line(result));
    if (!failures) failures.emplace(failed_path(job.output), job.id);
    return failures->append(failed_line(result));
  });
  if (!written) return written;
  if (expected != job.rows) {
    return Error{ErrorCode::invalid, fmt::format("{}: {} of {} rows have a result", job.id, expected, job.rows)};
  }
  std::error_code ignored;
  if (!failures) fs::remove(failed_path(job.output), ignored);  // Of an earlier run.
  if (failures) {
    if (auto kept = failures->finish(); !kept) return kept;
  }
  return answers.finish();
}

// ---- The run ----

// What an answer means for its row.
enum class Verdict : std::uint8_t { answered, failed, again, later, stop };

Verdict judge(const RowAnswer& answer) {
  switch (answer.status) {
    case 200: return answer.binary || !answer.body.starts_with('{') ? Verdict::failed : Verdict::answered;
    case 0:
    case 429:
    case 503: return Verdict::later;
    case 408:
    case 500:
    case 502:
    case 504: return Verdict::again;
    case 401:
    case 403:
    case 404: return Verdict::stop;
    default: return Verdict::failed;
  }
}

std::string reason_of(const RowAnswer& answer) {
  if (answer.status == 200) return "the answer is not JSON alone: rows must not ask for binary outputs";
  const auto told = nlohmann::json::parse(answer.body, nullptr, false);
  if (told.is_object() && told.contains("error") && told["error"].is_string()) return told["error"].get<std::string>();
  return fmt::format("{} {}", answer.status, answer.body.substr(0, 300));
}

class JobRun {
 public:
  JobRun(JobStore& store, Job job, const JobRunConfig& config)
      : store_(store),
        job_(std::move(job)),
        config_(config),
        input_(job_.input, job_.format),
        translator_(job_.format, {}),
        window_(config.under_way_max) {}

  Result<JobEnd> run() {
    if (auto same = check_input(); !same) return same.error();
    auto recorded = store_.recorded();
    if (!recorded) return recorded.error();
    recorded_ = std::move(*recorded);
    heard_ = committed_ = moved_ = job_steady_now();
    if (!job_.message.empty()) static_cast<void>(store_.set_message(""));  // Of an earlier run.
    // A file without rows is looked at, too: what should be its header may be a row.
    read_all_ = job_.rows > 0 && job_.left() == 0;
    if (!read_all_) {
      if (auto begun = begin(); !begun) return begun.error();
    }
    while (state_ == JobState::open && !interrupted() && !finished()) {
      if (auto step = turn(); !step) return record_error(step.error());
    }
    if (auto kept = commit(); !kept) return kept.error();
    set_stall("");
    if (state_ == JobState::cancelled) return JobEnd::cancelled;
    if (!finished()) return JobEnd::interrupted;
    return deliver();
  }

 private:
  bool interrupted() const { return config_.interrupted && config_.interrupted(); }
  bool finished() const { return read_all_ && waiting_.empty() && under_way_.empty(); }

  Error record_error(const Error& error) {
    static_cast<void>(commit());
    static_cast<void>(store_.set_message(error.message));
    return error;
  }

  // Results are kept by the number of their row, so rows must be what they were.
  Result<Nothing> check_input() const {
    const auto facts = scan_input(job_.input, job_.format);
    if (!facts) return facts.error();
    if (facts->bytes == job_.input_bytes && facts->digest == job_.input_digest) return Nothing{};
    return Error{ErrorCode::invalid, fmt::format("{}: it has changed since the job began; submit it anew", job_.input)};
  }

  // Learns what the model takes. A server that is not there yet is waited for.
  Result<Nothing> begin() {
    connect();
    Duration backoff = kRowBackoffMin;
    while (true) {
      const auto told = ask_http(question("/v2/models/" + job_.model));
      if (told && told->status == 200) {
        auto inputs = read_model_inputs(told->body);
        if (!inputs) return record_error({ErrorCode::unavailable, inputs.error().message});
        translator_ = RowTranslator(job_.format, std::move(*inputs));
        break;
      }
      if (!told && told.error().code == ErrorCode::invalid) return record_error(told.error());
      if (told && told->status >= 400 && told->status < 500) {
        return record_error(
            {ErrorCode::not_found, fmt::format("{}: {}", job_.model, reason_of({0, told->status, told->body}))});
      }
      trouble_ = told ? reason_of({0, told->status, told->body}) : told.error().message;
      if (interrupted()) return Nothing{};
      if (job_steady_now() - heard_ > config_.patience) return record_error({ErrorCode::unavailable, trouble_});
      if (job_steady_now() - moved_ >= config_.stall) set_stall(trouble_);
      show();
      std::this_thread::sleep_for(backoff);
      backoff = std::min(2 * backoff, kRowBackoffMax);
    }
    trouble_.clear();
    heard_ = moved_ = job_steady_now();
    set_stall("");
    if (job_.format != RowFormat::csv) return Nothing{};
    const auto header = input_.next();
    if (!header) return header.error();
    if (!*header) return Nothing{};
    if (auto read = translator_.read_header(**header); !read) {
      return record_error({read.error().code, fmt::format("{}: {}", job_.input, read.error().message)});
    }
    return Nothing{};
  }

  HttpQuestion question(std::string path) const {
    return {.address = job_.address,
            .port = job_.port,
            .path = std::move(path),
            .key = config_.key,
            .tls = config_.tls,
            .server_name = config_.server_name};
  }

  void connect() {
    client_ = std::make_unique<RowClient>(
        RowClientConfig{job_.address, job_.port, fmt::format("/v2/models/{}/infer", job_.model), config_.headers,
                        config_.key, config_.tls, config_.server_name});
    patient_header_ = fmt::format("Tangram-Deadline-Ms: {}\r\nTangram-Background: 1", config_.row_deadline / 1ms);
    pressed_header_ = fmt::format("Tangram-Deadline-Ms: {}\r\nTangram-Background: 2", config_.row_deadline / 1ms);
  }

  Result<Nothing> turn() {
    const TimePoint now = job_steady_now();
    if (now >= paused_until_) {
      if (auto sent = send_rows(); !sent) return sent;
    }
    // Without anything under way there is nothing to wait for, but the end of a pause.
    const Duration pause = std::clamp<Duration>(paused_until_ - now, Duration::zero(), kJobBreath);
    for (auto& answer : client_->wait(under_way_.empty() ? pause : kJobBreath)) {
      if (auto taken = take(answer); !taken) return taken;
    }
    if (auto alive = check_alive(); !alive) return alive;
    look_for_reason();
    if (results_.size() >= kCommitRows || job_steady_now() - committed_ >= kCommitEvery) return commit();
    return Nothing{};
  }

  // Fills the window, with rows that are asked again before new ones.
  Result<Nothing> send_rows() {
    while (under_way_.size() < window_.size() && results_.size() < kCommitRows) {
      if (waiting_.empty()) {
        auto row = next_row();
        if (!row) return row.error();
        if (!*row) return Nothing{};
        waiting_.push_back({std::move(**row), 0});
      }
      Pending pending = std::move(waiting_.front());
      waiting_.pop_front();
      const auto body = translator_.request_of(pending.row);
      if (!body) {
        fail_row(pending.row, body.error().message);
        continue;
      }
      const std::uint64_t number = pending.row.number;
      if (auto sent = client_->send(number, *body, pressed_ ? pressed_header_ : patient_header_); !sent) {
        if (sent.error().code == ErrorCode::invalid) return sent;
        waiting_.push_front(std::move(pending));
        trouble_ = sent.error().message;
        pause(Duration::zero());
        return Nothing{};
      }
      under_way_.emplace(number, std::move(pending));
    }
    return Nothing{};
  }

  // The next row without a result, or nothing at the end of the input.
  Result<std::optional<Row>> next_row() {
    while (!read_all_) {
      auto row = input_.next();
      if (!row) return row;
      if (!*row) {
        read_all_ = true;
        break;
      }
      if ((*row)->number < recorded_.size() && !recorded_[(*row)->number]) return row;
    }
    return std::optional<Row>();
  }

  Result<Nothing> take(RowAnswer& answer) {
    const auto found = under_way_.find(answer.row);
    Pending pending = std::move(found->second);
    under_way_.erase(found);
    const TimePoint now = job_steady_now();
    if (answer.status != 0) heard_ = now;
    switch (judge(answer)) {
      case Verdict::answered:
        results_.push_back({pending.row.number, pending.row.line, true, std::move(answer.body)});
        window_.on_answer(now);
        backoff_ = kRowBackoffMin;
        trouble_.clear();
        return Nothing{};
      case Verdict::failed: fail_row(pending.row, reason_of(answer)); return Nothing{};
      case Verdict::again:
        if (++pending.attempts < kRowAttemptsMax) {
          waiting_.push_back(std::move(pending));
        } else {
          fail_row(pending.row, reason_of(answer));
        }
        return Nothing{};
      case Verdict::later:
        waiting_.push_back(std::move(pending));
        trouble_ = reason_of(answer);
        // The others of the same window are refused with it; one step back is enough for all.
        if (now >= paused_until_) {
          window_.on_refusal(now);
          pause(answer.retry_after);
        }
        return Nothing{};
      case Verdict::stop: return Error{ErrorCode::not_found, fmt::format("{}: {}", job_.model, reason_of(answer))};
    }
    return Nothing{};
  }

  void fail_row(const Row& row, std::string reason) {
    results_.push_back({row.number, row.line, false, std::move(reason), translator_.id_of(row)});
  }

  void pause(Duration at_least) {
    paused_until_ = job_steady_now() + std::clamp(at_least, backoff_, kRowBackoffMax);
    backoff_ = std::min(2 * backoff_, kRowBackoffMax);
  }

  // A server that keeps a row for longer than it may has stopped; what it has is asked for anew.
  Result<Nothing> check_alive() {
    const TimePoint now = job_steady_now();
    if (under_way_.empty() && trouble_.empty()) heard_ = now;
    if (!under_way_.empty() && now - heard_ > config_.row_deadline + kRowBackoffMax && now >= paused_until_) {
      connect();
      for (auto& [number, pending] : under_way_) waiting_.push_back(std::move(pending));
      under_way_.clear();
      trouble_ = "the server does not answer";
      pause(kRowBackoffMax);
    }
    if (now - heard_ > config_.patience) return Error{ErrorCode::unavailable, trouble_};
    return Nothing{};
  }

  // Rows that wait at the server say nothing of themselves, so that is asked why it does not run them.
  void look_for_reason() {
    const TimePoint now = job_steady_now();
    if (!results_.empty()) moved_ = now;
    if (now - moved_ < config_.stall) return set_stall("");
    if (now < reason_due_) return;
    reason_due_ = now + kReasonEvery;
    std::string reason = ask_for_reason();
    if (reason.empty()) reason = trouble_;
    if (reason.empty()) {
      reason = fmt::format("{} rows wait at the server, and none is answered", under_way_.size());
    }
    set_stall(std::move(reason));
    show();
  }

  // What a server of ours tells beside the statistics of the model; empty where it is another, or tells nothing.
  std::string ask_for_reason() const {
    HttpQuestion asked = question(fmt::format("/v2/models/{}/stats", job_.model));
    asked.timeout = kReasonTimeout;
    const auto told = ask_http(asked);
    if (!told || told->status != 200) return "";
    const auto stats = nlohmann::json::parse(told->body, nullptr, false);
    const nlohmann::json::json_pointer why("/model_stats/0/tangram_background/why");
    const bool known = stats.is_object() && stats.contains(why) && stats[why].is_string();
    return known ? stats[why].get<std::string>() : "";
  }

  // Kept with the job, for those who ask how it stands.
  void set_stall(std::string reason) {
    if (reason == stall_) return;
    stall_ = std::move(reason);
    static_cast<void>(store_.set_message(stall_));
  }

  // An answer counts from here on.
  Result<Nothing> commit() {
    const TimePoint now = job_steady_now();
    committed_ = now;
    for (const auto& result : results_) ++(result.ok ? job_.answered : job_.failed);
    pace_.on_progress(now, job_.answered + job_.failed);
    const auto state = store_.record(results_, {pace_.rows_per_s(), job_wall_ms()});
    if (!state) return state.error();
    state_ = *state;
    results_.clear();
    press();
    show();
    return Nothing{};
  }

  void press() {
    if (job_.deadline_ms == 0) return;
    const Duration left = std::chrono::milliseconds(job_.deadline_ms - job_wall_ms());
    pressed_ = is_pressed(left, pace_.time_for(job_.left()));
    window_.set_limit(pressed_ ? kPressedFactor * config_.under_way_max : config_.under_way_max);
  }

  void show() const {
    if (!config_.progress) return;
    JobView view{.answered = job_.answered,
                 .failed = job_.failed,
                 .left = job_.left(),
                 .rows_per_s = pace_.rows_per_s(),
                 .under_way = under_way_.size(),
                 .pressed = pressed_,
                 .needed = pace_.time_for(job_.left()),
                 .deadline_in = {},
                 .trouble = stall_.empty() ? trouble_ : stall_,
                 .stalled = !stall_.empty()};
    if (job_.deadline_ms != 0) view.deadline_in = std::chrono::milliseconds(job_.deadline_ms - job_wall_ms());
    config_.progress(view);
  }

  Result<JobEnd> deliver() {
    const auto job = store_.read();
    if (!job) return job.error();
    if (auto written = write_output(store_, *job); !written) return record_error(written.error());
    const auto changed = store_.change_state(JobState::open, JobState::done);
    if (!changed) return changed.error();
    if (!*changed) return JobEnd::cancelled;
    store_.forget_results();
    return JobEnd::done;
  }

  struct Pending {
    Row row;
    int attempts = 0;
  };

  JobStore& store_;
  Job job_;
  const JobRunConfig& config_;
  RowFile input_;
  RowTranslator translator_;
  RowWindow window_;
  RowPace pace_;
  std::unique_ptr<RowClient> client_;
  std::string patient_header_;
  std::string pressed_header_;
  std::vector<bool> recorded_;
  std::deque<Pending> waiting_;                 // To be asked, again or for the first time.
  std::map<std::uint64_t, Pending> under_way_;  // By the number of the row.
  std::vector<RowResult> results_;              // Not yet committed.
  JobState state_ = JobState::open;
  bool read_all_ = false;
  bool pressed_ = false;
  Duration backoff_ = kRowBackoffMin;
  TimePoint paused_until_ = kTimeZero;
  TimePoint heard_;                   // When the server last said anything, ...
  TimePoint moved_;                   // ... and when a row last got a result.
  TimePoint reason_due_ = kTimeZero;  // When it is asked again why nothing moves.
  TimePoint committed_;
  std::string trouble_;
  std::string stall_;  // Why nothing has moved for long; empty: it moves.
};

}  // namespace

std::string failed_path(const std::string& output) { return output + ".failed.jsonl"; }

Result<InputFacts> scan_input(const std::string& path, RowFormat format) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return file_failure(path, "cannot be read");
  if (!S_ISREG(facts.st_mode)) return Error{ErrorCode::invalid, fmt::format("{}: not a file", path)};
  RowFile file(path, format);
  InputFacts found;
  bool anything = false;
  while (true) {
    const auto row = file.next();
    if (!row) return row.error();
    if (!*row) break;
    found.rows = (*row)->number;
    anything = true;
  }
  if (format == RowFormat::csv && !anything) {
    return Error{ErrorCode::invalid,
                 fmt::format("{}: it is empty; the first line of a CSV file names its columns", path)};
  }
  found.bytes = file.bytes();
  found.digest = file.digest();
  return found;
}

Result<JobEnd> run_job(JobStore& store, const JobRunConfig& config) {
  auto job = store.read();
  if (!job) return job.error();
  if (job->state == JobState::done) {
    store.forget_results();  // The run that ended it may have been killed before it could.
    return JobEnd::done;
  }
  return JobRun(store, std::move(*job), config).run();
}

}  // namespace tangram::client
