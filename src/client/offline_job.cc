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

TimePoint steady_now() { return TimePoint(Duration(std::chrono::steady_clock::now().time_since_epoch())); }

std::int64_t wall_ms() { return std::chrono::system_clock::now().time_since_epoch() / 1ms; }

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
    // A file without rows is looked at, too: what should be its header may be a row.
    read_all_ = job_.rows > 0 && job_.left() == 0;
    if (!read_all_) {
      TANGRAM_RETURN_IF_ERROR(begin());
    }
    while (state_ == OfflineState::open && !interrupted() && !finished()) {
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

  // Results are kept by the number of their row, so rows must be what they were.
  Result<Nothing> check_input() const {
    TANGRAM_TRY(const auto facts, scan_input(job_.input, job_.format));
    if (facts.bytes == job_.input_bytes && facts.digest == job_.input_digest) return Nothing{};
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

  void connect() {
    client_ = std::make_unique<RowClient>(
        RowClientConfig{job_.address, job_.port, fmt::format("/v2/models/{}/infer", job_.model), config_.headers,
                        config_.key, config_.tls, config_.server_name});
    patient_header_ = fmt::format("Tangram-Deadline-Ms: {}\r\nTangram-Background: 1", config_.row_deadline / 1ms);
    pressed_header_ = fmt::format("Tangram-Deadline-Ms: {}\r\nTangram-Background: 2", config_.row_deadline / 1ms);
  }

  Result<Nothing> turn() {
    const TimePoint now = steady_now();
    if (now >= paused_until_) {
      TANGRAM_RETURN_IF_ERROR(send_rows());
    }
    // Without anything under way there is nothing to wait for, but the end of a pause.
    const Duration pause = std::clamp<Duration>(paused_until_ - now, Duration::zero(), kJobBreath);
    for (auto& answer : client_->wait(under_way_.empty() ? pause : kJobBreath)) {
      TANGRAM_RETURN_IF_ERROR(take(answer));
    }
    TANGRAM_RETURN_IF_ERROR(check_alive());
    look_for_reason();
    if (results_.size() >= kCommitRows || steady_now() - committed_ >= kCommitEvery) return commit();
    return Nothing{};
  }

  // Fills the window, with rows that are asked again before new ones.
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
    const TimePoint now = steady_now();
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
    paused_until_ = steady_now() + std::clamp(at_least, backoff_, kRowBackoffMax);
    backoff_ = std::min(2 * backoff_, kRowBackoffMax);
  }

  // A server that keeps a row for longer than it may has stopped; what it has is asked for anew.
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

  // Rows that wait at the server say nothing of themselves, so that is asked why it does not run them.
  void look_for_reason() {
    const TimePoint now = steady_now();
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

  Result<OfflineEnd> deliver() {
    TANGRAM_TRY(const auto job, store_.read());
    if (auto written = write_output(store_, job); !written) return record_error(written.error());
    TANGRAM_TRY(const auto changed, store_.change_state(OfflineState::open, OfflineState::done));
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

Result<OfflineEnd> run_offline_job(OfflineStore& store, const OfflineRunConfig& config) {
  TANGRAM_TRY(auto job, store.read());
  if (job.state == OfflineState::done) {
    store.forget_results();  // The run that ended it may have been killed before it could.
    return OfflineEnd::done;
  }
  return OfflineRun(store, std::move(job), config).run();
}

}  // namespace tangram::client
