// Runs one offline job: it reads the rows of a file, sends each as a background request, and commits the answers.
//
// Invariants:
// - Between two steps, a row that was read and has no committed result is in exactly one of waiting_, under_way_ and
// results_.
// - A result counts only once the store has committed it. A run that is killed loses at most the uncommitted results,
// and the next run asks those rows again.
// - The output file is written only after every row has a result, so a reader never sees a part of it.
//
// Example: a job of 1000 rows is killed after 600 are committed. The next run reads all 1000 and sends 400.
#include "client/offline_job.h"

#include <fmt/format.h>

#include <chrono>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "client/http_answer.h"
#include "client/http_client.h"
#include "client/offline_client.h"
#include "client/offline_input.h"
#include "client/offline_output.h"
#include "client/offline_pace.h"

namespace tangram::client {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kCommitRows = 256;   // Results in one transaction at most, ...
constexpr Duration kCommitEvery = 100ms;   // ... and how long they wait for it.
constexpr int kRowAttemptsMax = 3;         // Of a row whose batch failed at the server.
constexpr Duration kRowBackoffMin = 50ms;  // While the server refuses or is away, doubled up to ...
constexpr Duration kRowBackoffMax = 5s;
constexpr Duration kJobBreath = 50ms;      // The longest wait without a look around.
constexpr std::size_t kPressedFactor = 4;  // More rows are under way when the deadline is near.
constexpr Duration kReasonEvery = 5s;      // How often a server is asked why nothing moves, ...
constexpr Duration kReasonTimeout = 1s;    // ... and how long it may take to say so.

// Intervals use the steady clock. The job's deadline is a wall time, because it must survive a restart of the host.
TimePoint steady_now() { return TimePoint(Duration(std::chrono::steady_clock::now().time_since_epoch())); }

// What an answer means for its row: a result, a final failure, another attempt that counts against the row, another
// attempt that does not (the server was busy or away), or the end of the job.
enum class Verdict : std::uint8_t { answered, failed, again, later, stop };

// A 5xx may be the fault of the row, so its attempts are counted. 429 and 503 say that the server is full, and status 0
// that the connection broke, so they are not. 401, 403 and 404 would be the same for every row, so they end the job.
Verdict judge(const RowAnswer& answer) {
  switch (answer.status) {
    // The output file holds one JSON object per line, which binary tensors cannot be a part of.
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
  if (answer.status == 200) return "the answer is not only JSON: rows must not request binary outputs";
  if (auto told = error_in(answer.body)) return std::move(*told);
  return fmt::format("{} {}", answer.status, answer.body.substr(0, 300));
}

class OfflineRun {
 public:
  OfflineRun(OfflineStore& store, OfflineJob job, const OfflineRunConfig& config)
      : store_(store),
        job_(std::move(job)),
        config_(config),
        input_(job_.input, job_.format),
        translator_(job_.format, {}),
        window_(config.under_way_max) {}

  Result<OfflineEnd> run() {
    TANGRAM_RETURN_IF_ERROR(check_input());
    TANGRAM_TRY(auto recorded, store_.recorded());
    recorded_ = std::move(recorded);
    heard_ = committed_ = moved_ = steady_now();
    if (!job_.message.empty()) static_cast<void>(store_.set_message(""));  // Of an earlier run.
    // A file without rows is read as well: a CSV file of one line may have its only row where the header belongs.
    read_all_ = job_.rows > 0 && job_.left() == 0;
    if (!read_all_) {
      TANGRAM_RETURN_IF_ERROR(begin());
    }
    while (state_ == OfflineState::open && !interrupted() && !finished()) {
      // An error ends the run but keeps the results so far. The message stays with the job for `batch status`.
      if (auto step = turn(); !step) return record_error(step.error());
    }
    TANGRAM_RETURN_IF_ERROR(commit());
    set_stall("");
    if (state_ == OfflineState::cancelled) return OfflineEnd::cancelled;
    if (!finished()) return OfflineEnd::interrupted;
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

  // Results are stored by row number. If the input changed between two runs, old results would belong to other rows.
  Result<Nothing> check_input() const {
    TANGRAM_TRY(const auto facts, scan_input(job_.input, job_.format));
    if (facts.bytes == job_.input_bytes && facts.digest == job_.input_digest) return Nothing{};
    return Error{ErrorCode::invalid,
                 fmt::format("{}: the file has changed since the job began; submit it as a new job", job_.input)};
  }

  // Asks the server for the inputs of the model and, for CSV, reads the header against them. Requires an unread input.
  // Retries while the server is unreachable or answers 5xx, for `patience` at most; a 4xx is final.
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
      // The main loop sees the interruption as well and ends before it sends a row.
      if (interrupted()) return Nothing{};
      if (steady_now() - heard_ > config_.patience) return record_error({ErrorCode::unavailable, trouble_});
      if (steady_now() - moved_ >= config_.stall) set_stall(trouble_);
      show();
      std::this_thread::sleep_for(backoff);
      backoff = std::min(2 * backoff, kRowBackoffMax);
    }
    trouble_.clear();
    heard_ = moved_ = steady_now();
    set_stall("");
    if (job_.format != RowFormat::csv) return Nothing{};
    TANGRAM_TRY(const auto header, input_.next());
    if (!header) return Nothing{};
    if (auto read = translator_.read_header(*header); !read) {
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

  // Replaces the client and with it every connection; requests under way at the old one are lost to this process.
  void connect() {
    client_ = std::make_unique<RowClient>(
        RowClientConfig{job_.address, job_.port, fmt::format("/v2/models/{}/infer", job_.model), config_.headers,
                        config_.key, config_.tls, config_.server_name});
    // Both are background requests; level 2 marks those of a job that is about to miss its deadline.
    patient_header_ = fmt::format("Tangram-Deadline-Ms: {}\r\nTangram-Background: 1", config_.row_deadline / 1ms);
    pressed_header_ = fmt::format("Tangram-Deadline-Ms: {}\r\nTangram-Background: 2", config_.row_deadline / 1ms);
  }

  // One step of the loop: send, receive, check the server, commit. It waits for kJobBreath at most (and kReasonTimeout
  // when it asks for the reason of a stall), so an interruption is noticed soon.
  Result<Nothing> turn() {
    const TimePoint now = steady_now();
    if (now >= paused_until_) {
      TANGRAM_RETURN_IF_ERROR(send_rows());
    }
    // With no request under way, only the end of a pause can change anything.
    const Duration pause = std::clamp<Duration>(paused_until_ - now, Duration::zero(), kJobBreath);
    for (auto& answer : client_->wait(under_way_.empty() ? pause : kJobBreath)) {
      TANGRAM_RETURN_IF_ERROR(take(answer));
    }
    TANGRAM_RETURN_IF_ERROR(check_alive());
    look_for_reason();
    if (results_.size() >= kCommitRows || steady_now() - committed_ >= kCommitEvery) return commit();
    return Nothing{};
  }

  // Fills the window. New rows are read only when no row waits for a retry, which bounds the rows in memory. The second
  // condition bounds the uncommitted results: a file of invalid rows produces results without a single request.
  Result<Nothing> send_rows() {
    while (under_way_.size() < window_.size() && results_.size() < kCommitRows) {
      if (waiting_.empty()) {
        TANGRAM_TRY(auto row, next_row());
        if (!row) return Nothing{};
        waiting_.push_back({std::move(*row), 0});
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
        // An invalid address never becomes valid. Any other failure is the connection's, so the row keeps its place.
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

  // Moves one answered row from under_way_ to results_ or back to waiting_. Requires that the row is under way.
  Result<Nothing> take(RowAnswer& answer) {
    const auto found = under_way_.find(answer.row);
    Pending pending = std::move(found->second);
    under_way_.erase(found);
    const TimePoint now = steady_now();
    // Any HTTP status proves that the server is alive, even a rejection. Status 0 is a broken connection.
    if (answer.status != 0) heard_ = now;
    switch (judge(answer)) {
      case Verdict::answered:
        results_.push_back({pending.row.number, pending.row.line, true, std::move(answer.body)});
        window_.on_answer(now);
        backoff_ = kRowBackoffMin;
        trouble_.clear();
        return Nothing{};
      case Verdict::failed: fail_row(pending.row, reason_of(answer)); return Nothing{};
      // A row whose own data crashes the model would fail forever, so its attempts are limited.
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
        // The rest of the same window is rejected together with it. Halving once per pause is enough for all of them.
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

  // Waits as long as the server asked, but at least backoff_ and at most kRowBackoffMax.
  void pause(Duration at_least) {
    paused_until_ = steady_now() + std::clamp(at_least, backoff_, kRowBackoffMax);
    backoff_ = std::min(2 * backoff_, kRowBackoffMax);
  }

  // A server that holds a row for longer than its deadline has stopped. The connections are replaced and the rows sent
  // again. A row may then run twice, which is harmless: the store keeps the first result of a row.
  Result<Nothing> check_alive() {
    const TimePoint now = steady_now();
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

  // A request that is queued at the server gives no sign of life, so after a stall the server is asked for the reason.
  void look_for_reason() {
    const TimePoint now = steady_now();
    if (!results_.empty()) moved_ = now;
    if (now - moved_ < config_.stall) return set_stall("");
    if (now < reason_due_) return;
    reason_due_ = now + kReasonEvery;
    std::string reason = ask_for_reason();
    if (reason.empty()) reason = trouble_;
    if (reason.empty()) {
      reason = fmt::format("{} rows are queued at the server, and none has been answered", under_way_.size());
    }
    set_stall(std::move(reason));
    show();
  }

  // The reason in the model's statistics, a Tangram extension. Empty if the server is another one or gives no reason.
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

  // Stores the reason with the job, so that `batch status` can show it. Writes only on a change.
  void set_stall(std::string reason) {
    if (reason == stall_) return;
    stall_ = std::move(reason);
    static_cast<void>(store_.set_message(stall_));
  }

  // Commits results_ in one transaction; from here on they count. Also reads the state back, which is how this process
  // learns that another one has cancelled the job.
  Result<Nothing> commit() {
    const TimePoint now = steady_now();
    committed_ = now;
    for (const auto& result : results_) ++(result.ok ? job_.answered : job_.failed);
    pace_.on_progress(now, job_.answered + job_.failed);
    TANGRAM_TRY(const auto state, store_.record(results_, {pace_.rows_per_s(), wall_ms()}));
    state_ = state;
    results_.clear();
    press();
    show();
    return Nothing{};
  }

  // Near the deadline, raises the background level of new requests and allows more of them under way.
  void press() {
    if (job_.deadline_ms == 0) return;
    const Duration left = std::chrono::milliseconds(job_.deadline_ms - wall_ms());
    pressed_ = is_pressed(left, pace_.time_for(job_.left()));
    window_.set_limit(pressed_ ? kPressedFactor * config_.under_way_max : config_.under_way_max);
  }

  void show() const {
    if (!config_.progress) return;
    OfflineView view{.answered = job_.answered,
                     .failed = job_.failed,
                     .left = job_.left(),
                     .rows_per_s = pace_.rows_per_s(),
                     .under_way = under_way_.size(),
                     .pressed = pressed_,
                     .needed = pace_.time_for(job_.left()),
                     .deadline_in = {},
                     .trouble = stall_.empty() ? trouble_ : stall_,
                     .stalled = !stall_.empty()};
    if (job_.deadline_ms != 0) view.deadline_in = std::chrono::milliseconds(job_.deadline_ms - wall_ms());
    config_.progress(view);
  }

  // Requires a committed result for every row. The output is written before the state becomes `done`: a kill in between
  // writes the same output again, while the reverse order could lose it.
  Result<OfflineEnd> deliver() {
    TANGRAM_TRY(const auto job, store_.read());
    if (auto written = write_output(store_, job); !written) return record_error(written.error());
    TANGRAM_TRY(const auto changed, store_.change_state(OfflineState::open, OfflineState::done));
    // The state was no longer `open`, so another process cancelled the job in the meantime.
    if (!changed) return OfflineEnd::cancelled;
    store_.forget_results();
    return OfflineEnd::done;
  }

  struct Pending {
    Row row;
    int attempts = 0;
  };

  OfflineStore& store_;
  OfflineJob job_;
  const OfflineRunConfig& config_;
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
  OfflineState state_ = OfflineState::open;
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

std::int64_t wall_ms() { return std::chrono::system_clock::now().time_since_epoch() / 1ms; }

Result<OfflineEnd> run_offline_job(OfflineStore& store, const OfflineRunConfig& config) {
  TANGRAM_TRY(auto job, store.read());
  if (job.state == OfflineState::done) {
    store.forget_results();  // The run that ended it may have been killed before it could.
    return OfflineEnd::done;
  }
  return OfflineRun(store, std::move(job), config).run();
}

}  // namespace tangram::client
