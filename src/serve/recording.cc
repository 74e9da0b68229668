#include "serve/recording.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/check.h"

namespace tangram::serve {
namespace {

using Json = nlohmann::ordered_json;

std::int64_t count_of(TimePoint when) { return when.time_since_epoch().count(); }

Json to_json(const sched::SchedulerConfig& c) {
  return {{"policy", c.policy},
          {"merge", c.policy_config.merge},
          {"elsa_alpha", c.policy_config.elsa_alpha},
          {"elsa_beta", c.policy_config.elsa_beta},
          {"drop_hopeless", c.policy_config.drop_hopeless},
          {"late_limit", c.policy_config.late_limit},
          {"admission", c.admission},
          {"requests_max", c.requests_max},
          {"retries_max", c.retries_max},
          {"correction_weight", c.correction_weight},
          {"stuck_factor", c.stuck_factor},
          {"stuck_min_ns", c.stuck_min.count()},
          {"reshapes_max", c.reshapes_max}};
}

sched::SchedulerConfig config_of(const Json& json) {
  sched::SchedulerConfig c;
  c.policy = json.at("policy").get<std::string>();
  c.policy_config.merge = json.at("merge").get<bool>();
  c.policy_config.elsa_alpha = json.at("elsa_alpha").get<double>();
  c.policy_config.elsa_beta = json.at("elsa_beta").get<double>();
  c.policy_config.drop_hopeless = json.at("drop_hopeless").get<bool>();
  c.policy_config.late_limit = json.at("late_limit").get<double>();
  c.admission = json.at("admission").get<bool>();
  c.requests_max = json.at("requests_max").get<std::size_t>();
  c.retries_max = json.at("retries_max").get<int>();
  c.correction_weight = json.at("correction_weight").get<double>();
  c.stuck_factor = json.at("stuck_factor").get<double>();
  c.stuck_min = Duration(json.at("stuck_min_ns").get<std::int64_t>());
  c.reshapes_max = json.at("reshapes_max").get<int>();
  return c;
}

Json to_json(const Layout& layout) {
  Json list = Json::array();
  for (const auto& slice : layout.slices) list.push_back({slice.profile, slice.start});
  return list;
}

Slice slice_of(const Json& json) { return {json.at(0).get<std::uint16_t>(), json.at(1).get<std::uint16_t>()}; }

Json to_json(const sched::PoolService& entry) {
  Json mean = Json::array();
  Json p99 = Json::array();
  for (std::size_t bucket = 0; bucket < entry.batch_max.size(); ++bucket) {
    for (std::int32_t n = 1; n <= entry.latency.samples_max(); ++n) {
      mean.push_back(entry.latency.mean_ns(bucket, n));
      p99.push_back(entry.latency.p99_ns(bucket, n));
    }
  }
  return {{"service", entry.service.value()},
          {"batch_max", entry.batch_max},
          {"samples_max", entry.latency.samples_max()},
          {"mean_ns", mean},
          {"p99_ns", p99}};
}

// Parts of a recording that disagree with each other; the caller says where.
struct Inconsistent {};

void require(bool holds) {
  if (!holds) throw Inconsistent{};
}

sched::PoolService pool_service_of(const Json& json) {
  sched::PoolService entry;
  entry.service = ServiceId(json.at("service").get<std::uint32_t>());
  entry.batch_max = json.at("batch_max").get<std::vector<std::int32_t>>();
  const auto samples_max = json.at("samples_max").get<std::int32_t>();
  const auto mean = json.at("mean_ns").get<std::vector<std::int64_t>>();
  const auto p99 = json.at("p99_ns").get<std::vector<std::int64_t>>();
  const std::size_t buckets = entry.batch_max.size();
  require(samples_max >= 1 && samples_max <= sched::kBatchMax);
  require(mean.size() == buckets * static_cast<std::size_t>(samples_max) && p99.size() == mean.size());
  entry.latency = sched::LatencyTable(buckets, samples_max);
  for (std::size_t b = 0; b < buckets; ++b) {
    require(entry.batch_max[b] >= 0 && entry.batch_max[b] <= samples_max);
    for (std::int32_t n = 1; n <= samples_max; ++n) {
      const std::size_t at = b * static_cast<std::size_t>(samples_max) + static_cast<std::size_t>(n - 1);
      entry.latency.set(b, n, {Duration(mean[at]), Duration(p99[at])});
    }
  }
  return entry;
}

Json to_json(const sched::Deployment& d) {
  Json devices = Json::array();
  for (const auto& device : d.devices) {
    devices.push_back({{"name", device.name}, {"layout", to_json(device.layout)}});
  }
  Json services = Json::array();
  for (const auto& s : d.services) {
    Json pools = Json::array();
    for (const auto pool : s.pools) pools.push_back(pool.value());
    services.push_back({{"name", s.name},
                        {"slo_ns", s.slo.latency.count()},
                        {"percentile", s.slo.percentile},
                        {"priority", s.priority},
                        {"padding", static_cast<int>(s.padding)},
                        {"edges", s.edges},
                        {"pools", pools},
                        {"samples_max", s.samples_max}});
  }
  Json pools = Json::array();
  for (const auto& pool : d.pools) {
    Json entries = Json::array();
    for (const auto& entry : pool.services) entries.push_back(to_json(entry));
    pools.push_back(
        {{"kind", pool.kind}, {"compute_slices", pool.compute_slices}, {"weight", pool.weight}, {"services", entries}});
  }
  Json places = Json::array();
  for (const auto& p : d.places) {
    places.push_back({p.slice.profile, p.slice.start, p.device.value(), p.pool.value(), p.process});
  }
  return {{"devices", devices}, {"services", services}, {"pools", pools}, {"places", places}};
}

sched::DeployedService service_of(const Json& json, std::size_t pool_count) {
  sched::DeployedService s;
  s.name = json.at("name").get<std::string>();
  s.slo = {Duration(json.at("slo_ns").get<std::int64_t>()), json.at("percentile").get<double>()};
  s.priority = json.at("priority").get<int>();
  const int padding = json.at("padding").get<int>();
  require(padding >= 0 && padding <= static_cast<int>(Padding::none));
  s.padding = static_cast<Padding>(padding);
  s.edges = json.at("edges").get<std::vector<std::int64_t>>();
  for (const auto& pool : json.at("pools")) {
    s.pools.emplace_back(pool.get<std::uint32_t>());
    require(s.pools.back().index() < pool_count);
  }
  s.samples_max = json.at("samples_max").get<std::int32_t>();
  return s;
}

sched::Deployment deployment_of(const Json& json) {
  sched::Deployment d;
  for (const auto& device : json.at("devices")) {
    Layout layout;
    for (const auto& slice : device.at("layout")) layout.slices.push_back(slice_of(slice));
    d.devices.push_back({device.at("name").get<std::string>(), {}, layout});
  }
  for (const auto& pool : json.at("pools")) {
    sched::Pool& p = d.pools.emplace_back();
    p.kind = pool.at("kind").get<std::string>();
    p.compute_slices = pool.at("compute_slices").get<int>();
    p.weight = pool.at("weight").get<double>();
    for (const auto& entry : pool.at("services")) p.services.push_back(pool_service_of(entry));
  }
  for (const auto& service : json.at("services")) d.services.push_back(service_of(service, d.pools.size()));
  for (const auto& pool : d.pools) {
    for (const auto& entry : pool.services) {
      require(entry.service.index() < d.services.size());
      require(entry.batch_max.size() == d.services[entry.service.index()].edges.size());
    }
  }
  for (const auto& place : json.at("places")) {
    const DeviceId device(place.at(2).get<std::uint32_t>());
    const sched::PoolId pool(place.at(3).get<std::uint32_t>());
    require(device.index() < d.devices.size() && pool.index() < d.pools.size());
    d.places.push_back({device, pool, slice_of(place), place.at(4).get<int>()});
  }
  return d;
}

// The world of a replay: it does nothing, because everything that happened is in the recording.
class ReplayWorld final : public sched::World {
 public:
  TimePoint now() const override { return now_; }
  void wake_at(TimePoint) override {}
  void launch(const sched::Batch&) override {}
  void restart(SliceId) override {}
  void reshape(DeviceId, const Layout&) override {}
  void lend(SliceId) override {}
  void recall(SliceId) override {}
  void resolve(const Request&, const Outcome&, const sched::Batch*) override {}

  void set_now(TimePoint now) { now_ = now; }

 private:
  TimePoint now_;
};

// The whole numbers of a line, after its words.
std::optional<std::vector<std::int64_t>> numbers_of(std::string_view text) {
  std::vector<std::int64_t> numbers;
  while (!text.empty()) {
    if (text.front() == ' ') {
      text.remove_prefix(1);
      continue;
    }
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{}) return std::nullopt;
    numbers.push_back(value);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  }
  return numbers;
}

std::string_view next_word(std::string_view& text) {
  const auto end = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

// Plays one recording.
class Player {
 public:
  Player(std::string_view name, std::string_view text) : name_(name), text_(text) {}

  Result<ReplayReport> run() {
    if (auto ready = read_head(); !ready) return ready.error();
    while (!report_.difference_line) {
      const auto line = next_line();
      if (!line) break;
      if (line->starts_with("< ")) {
        ++report_.actions;
        continue;
      }
      if (*line == "end") {
        ended_ = true;
        break;
      }
      ++report_.events;
      if (!play(*line)) return wrong("not an event of a recording");
    }
    report_.complete = ended_;
    compare_rest();
    return report_;
  }

 private:
  // A whole line of the recording, or nothing at its end.
  std::optional<std::string_view> next_line() {
    const auto end = text_.find('\n', at_);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view line = text_.substr(at_, end - at_);
    at_ = end + 1;
    ++line_number_;
    return line;
  }

  Error wrong(const char* message) const {
    return {ErrorCode::invalid, fmt::format("{}:{}: {}", name_, line_number_, message)};
  }

  // The scheduler speaks: each line must be the next of the recording.
  void compare(std::string_view line) {
    if (report_.difference_line) return;
    const std::string_view recorded = text_.substr(compared_, line.size());
    const bool at_end = compared_ + line.size() >= text_.size();
    if (recorded == line.substr(0, at_end ? recorded.size() : line.size())) {
      compared_ += recorded.size();
      compared_lines_ += at_end && recorded.size() < line.size() ? 0 : 1;
      return;
    }
    report_.same = false;
    report_.difference_line = compared_lines_ + 1;
    report_.replayed = line.substr(0, line.size() - 1);
    const auto end = text_.find('\n', compared_);
    report_.recorded = text_.substr(compared_, end == std::string_view::npos ? end : end - compared_);
  }

  // What the recording has beyond what was replayed.
  void compare_rest() {
    if (report_.difference_line || !ended_) return;
    if (compared_ + 4 == at_) return;
    report_.same = false;
    report_.difference_line = compared_lines_ + 1;
    const auto end = text_.find('\n', compared_);
    report_.recorded = text_.substr(compared_, end == std::string_view::npos ? end : end - compared_);
  }

  Result<Nothing> read_head() {
    const auto title = next_line();
    if (!title || *title != fmt::format("tangram recording {}", kRecordingVersion)) {
      return wrong("not a recording, or one of another version");
    }
    auto config_line = next_line();
    auto deployment_line = next_line();
    if (!config_line || !deployment_line || !config_line->starts_with("config ") ||
        !deployment_line->starts_with("deployment ")) {
      return wrong("expected config and deployment");
    }
    auto deployment = read_deployment(deployment_line->substr(11));
    if (!deployment) return wrong("not a deployment");
    try {
      const auto config = config_of(Json::parse(config_line->substr(7)));
      if (sched::find_policy(config.policy) == nullptr) return wrong("unknown policy");
      world_.set_now(kTimeZero);
      door_.emplace(
          world_, std::move(*deployment), config, [this](std::string_view line) { compare(line); }, UINT64_MAX);
    } catch (const Json::exception&) {
      return wrong("not a configuration");
    }
    return Nothing{};
  }

  bool play(std::string_view line) {
    if (!line.starts_with("> ")) return false;
    line.remove_prefix(2);
    std::int64_t when = 0;
    const std::string_view time = next_word(line);
    const auto [end, error] = std::from_chars(time.data(), time.data() + time.size(), when);
    if (error != std::errc{} || end != time.data() + time.size() || TimePoint(Duration(when)) < world_.now())
      return false;
    world_.set_now(TimePoint(Duration(when)));
    const std::string_view word = next_word(line);
    if (word == "plan") return play_plan(line);
    const auto n = numbers_of(line);
    return n && play_numbers(word, *n);
  }

  bool play_plan(std::string_view text) {
    const auto next = read_deployment(text);
    if (!next || door_->scheduler().moving()) return false;
    if (next->services.size() != door_->scheduler().state().deployment.services.size()) return false;
    door_->on_plan_ready(*next);
    return true;
  }

  bool play_numbers(std::string_view word, const std::vector<std::int64_t>& n) {
    const auto& state = door_->scheduler().state();
    const auto slice_known = [&] { return !n.empty() && static_cast<std::uint64_t>(n[0]) < state.slices.size(); };
    const auto slice = [&] { return SliceId(static_cast<std::uint32_t>(n[0])); };
    if (word == "arrival" && n.size() == 7) return play_arrival(n);
    if (word == "wake" && n.empty()) {
      door_->on_wake();
      return true;
    }
    if (word == "ending" && n.empty()) {
      door_->on_ending();
      return true;
    }
    if (word == "reshaped" && n.size() == 2 && static_cast<std::uint64_t>(n[0]) < state.deployment.devices.size()) {
      door_->on_reshaped(DeviceId(static_cast<std::uint32_t>(n[0])), n[1] != 0);
      return true;
    }
    if (!slice_known()) return false;
    const auto status = state.slices[slice().index()].status;
    if (word == "done" && n.size() == 3) {
      door_->on_batch_done({slice(), BatchId(static_cast<std::uint64_t>(n[1])), n[2] == 1, n[2] == 2});
    } else if (word == "lost" && n.size() == 1) {
      door_->on_slice_lost(slice());
    } else if (word == "restarted" && n.size() == 2 && status == sched::SliceStatus::restarting) {
      door_->on_restarted(slice(), n[1] != 0);
    } else if (word == "returned" && n.size() == 1 && status == sched::SliceStatus::recalling) {
      door_->on_returned(slice());
    } else {
      return false;
    }
    return true;
  }

  bool play_arrival(const std::vector<std::int64_t>& n) {
    Request request;
    request.id = RequestId(static_cast<std::uint64_t>(n[0]));
    request.service = ServiceId(static_cast<std::uint32_t>(n[1]));
    request.tenant = TenantId(static_cast<std::uint32_t>(n[2]));
    request.priority = static_cast<std::int32_t>(n[3]);
    request.samples = static_cast<std::int32_t>(n[4]);
    request.size = n[5];
    request.arrival = world_.now();
    request.deadline = TimePoint(Duration(n[6]));
    if (request.service.index() >= door_->scheduler().state().deployment.services.size()) return false;
    if (request.samples < 1 || request.size < 1) return false;
    door_->on_arrival(request);
    return true;
  }

  std::string_view name_;
  std::string_view text_;
  std::size_t at_ = 0;
  std::uint64_t line_number_ = 0;
  std::size_t compared_ = 0;
  std::uint64_t compared_lines_ = 0;
  bool ended_ = false;
  ReplayReport report_;
  ReplayWorld world_;
  std::optional<Door> door_;
};

}  // namespace

std::string write_deployment(const sched::Deployment& deployment) { return to_json(deployment).dump(); }

Result<sched::Deployment> read_deployment(std::string_view text) {
  try {
    return deployment_of(Json::parse(text));
  } catch (const Json::exception& error) {
    return Error{ErrorCode::invalid, error.what()};
  } catch (const Inconsistent&) {
    return Error{ErrorCode::invalid, "the parts of the deployment disagree"};
  }
}

Result<ReplayReport> replay(std::string_view name, std::string_view recording) { return Player(name, recording).run(); }

Door::Door(sched::World& world, sched::Deployment deployment, const sched::SchedulerConfig& config, RecordingSink sink,
           std::uint64_t bytes_max)
    : world_(world), sink_(std::move(sink)), bytes_left_(bytes_max), scheduler_(*this, deployment, config) {
  if (!sink_) return;
  write(fmt::format("tangram recording {}\n", kRecordingVersion));
  write("config " + to_json(config).dump() + '\n');
  write("deployment " + write_deployment(deployment) + '\n');
}

Door::~Door() {
  if (sink_) write("end\n");
}

void Door::write(std::string_view line) {
  if (line.size() > bytes_left_) {
    // Enough is enough: the recording stops at a whole line, and reads as one that was cut off.
    sink_ = nullptr;
    return;
  }
  bytes_left_ -= line.size();
  sink_(line);
}

template <typename... Args>
void Door::event(const char* format, const Args&... args) {
  if (!sink_) return;
  line_.clear();
  fmt::format_to(std::back_inserter(line_), "> {} ", count_of(now()));
  fmt::vformat_to(std::back_inserter(line_), format, fmt::make_format_args(args...));
  line_ += '\n';
  write(line_);
}

template <typename... Args>
void Door::action(const char* format, const Args&... args) {
  if (!sink_) return;
  line_.assign("< ");
  fmt::vformat_to(std::back_inserter(line_), format, fmt::make_format_args(args...));
  line_ += '\n';
  write(line_);
}

void Door::on_arrival(const Request& r) {
  event("arrival {} {} {} {} {} {} {}", r.id.value(), r.service.value(), r.tenant.value(), r.priority, r.samples,
        r.size, count_of(r.deadline));
  scheduler_.on_arrival(r);
}

void Door::on_batch_done(const sched::BatchDone& done) {
  event("done {} {} {}", done.slice.value(), done.batch.value(), done.ok ? 1 : done.turned_away ? 2 : 0);
  scheduler_.on_batch_done(done);
}

void Door::on_wake() {
  event("wake");
  scheduler_.on_wake();
}

void Door::on_slice_lost(SliceId slice) {
  event("lost {}", slice.value());
  scheduler_.on_slice_lost(slice);
}

void Door::on_restarted(SliceId slice, bool ok) {
  event("restarted {} {}", slice.value(), ok ? 1 : 0);
  scheduler_.on_restarted(slice, ok);
}

void Door::on_reshaped(DeviceId device, bool ok) {
  event("reshaped {} {}", device.value(), ok ? 1 : 0);
  scheduler_.on_reshaped(device, ok);
}

void Door::on_plan_ready(const sched::Deployment& next) {
  if (sink_) event("plan {}", write_deployment(next));
  scheduler_.on_plan_ready(next);
}

void Door::on_returned(SliceId slice) {
  event("returned {}", slice.value());
  scheduler_.on_returned(slice);
}

void Door::on_ending() {
  event("ending");
  scheduler_.on_ending();
}

void Door::wake_at(TimePoint when) {
  action("wake_at {}", count_of(when));
  world_.wake_at(when);
}

void Door::launch(const sched::Batch& b) {
  if (sink_) {
    line_ = fmt::format("< launch {} {} {} {} {} {} {}:", b.id.value(), b.slice.value(), b.service.value(), b.bucket,
                        b.padded_size, b.samples, b.predicted.count());
    for (const Request* member : b.members) fmt::format_to(std::back_inserter(line_), " {}", member->id.value());
    line_ += '\n';
    write(line_);
  }
  world_.launch(b);
}

void Door::restart(SliceId slice) {
  action("restart {}", slice.value());
  world_.restart(slice);
}

void Door::reshape(DeviceId device, const Layout& target) {
  action("reshape {} {}", device.value(), to_json(target).dump());
  world_.reshape(device, target);
}

void Door::lend(SliceId slice) {
  action("lend {}", slice.value());
  world_.lend(slice);
}

void Door::recall(SliceId slice) {
  action("recall {}", slice.value());
  world_.recall(slice);
}

void Door::resolve(const Request& request, const Outcome& outcome, const sched::Batch* batch) {
  action("resolve {} {} {} {} {}", request.id.value(), static_cast<int>(outcome.kind), static_cast<int>(outcome.reason),
         count_of(outcome.earliest), batch == nullptr ? 0 : batch->id.value());
  world_.resolve(request, outcome, batch);
}

}  // namespace tangram::serve
